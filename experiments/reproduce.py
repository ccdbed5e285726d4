"""Run every experiment, those that settle most first: ``python -m experiments.reproduce``."""

import sys

from circuitax.commands.cli import enter

if __name__ == "__main__":
    sys.exit(enter("reproduce"))
