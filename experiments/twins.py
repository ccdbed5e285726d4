"""Compare the code with accepted runs: ``python -m experiments.twins``."""

import sys

from circuitax.commands.twins import main

if __name__ == "__main__":
    sys.exit(main())
