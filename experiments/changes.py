"""Which claims are not as the last release had them: ``python -m experiments.changes``."""

import sys

from circuitax.commands.entry import enter

if __name__ == "__main__":
    sys.exit(enter("circuitax.commands.changes"))
