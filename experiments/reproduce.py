"""Run every experiment, cheap ones first: ``python -m experiments.reproduce``."""

import sys

from circuitax.commands.reproduce import main

if __name__ == "__main__":
    sys.exit(main())
