"""Keep finished runs in git: ``python -m experiments.accept``."""

import sys

from circuitax.commands.entry import enter

if __name__ == "__main__":
    sys.exit(enter("circuitax.commands.accept"))
