"""Print the claims of a run with their verdicts: ``python -m experiments.claims``."""

import sys

from circuitax.commands.cli import enter

if __name__ == "__main__":
    sys.exit(enter("claims"))
