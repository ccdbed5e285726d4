"""Keep finished runs in git: ``python -m experiments.accept``."""

import sys

from circuitax.commands.cli import enter

if __name__ == "__main__":
    sys.exit(enter("accept"))
