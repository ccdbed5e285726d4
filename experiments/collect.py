"""Merge the runs of a sweep into one dataset: ``python -m experiments.collect experiment=NAME``."""

import sys

from circuitax.commands.entry import enter

if __name__ == "__main__":
    sys.exit(enter("circuitax.commands.collect"))
