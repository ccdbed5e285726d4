"""Draw one page of results; the code is in ``circuitax.commands.poster``."""

import sys

from circuitax.commands.entry import enter

if __name__ == "__main__":
    sys.exit(enter("circuitax.commands.poster"))
