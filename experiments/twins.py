"""Compare the code with accepted runs: ``python -m experiments.twins``."""

import sys

from circuitax.commands.cli import enter

if __name__ == "__main__":
    sys.exit(enter("twins"))
