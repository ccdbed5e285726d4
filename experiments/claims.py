"""Print the claims of a run with their verdicts: ``python -m experiments.claims``."""

import sys

from circuitax.commands.entry import enter

if __name__ == "__main__":
    sys.exit(enter("circuitax.commands.claims"))
