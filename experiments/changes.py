"""Changes of claims since the last release: ``python -m experiments.changes``."""

import sys

from circuitax.commands.entry import enter

if __name__ == "__main__":
    sys.exit(enter("circuitax.commands.changes"))
