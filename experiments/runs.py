"""List finished runs and how they differ: ``python -m experiments.runs [NAME]``."""

import sys

from circuitax.commands.cli import enter

if __name__ == "__main__":
    sys.exit(enter("runs"))
