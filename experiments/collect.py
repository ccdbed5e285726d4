"""Merge the runs of a sweep into one dataset: ``python -m experiments.collect experiment=NAME``."""

import sys

from circuitax.commands.cli import enter

if __name__ == "__main__":
    sys.exit(enter("collect"))
