"""Draw one page of results; the code is in ``circuitax.commands.poster``."""

import sys

from circuitax.commands.poster import main

if __name__ == "__main__":
    sys.exit(main())
