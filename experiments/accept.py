"""Keep finished runs in git: ``python -m experiments.accept``."""

import sys

from circuitax.commands.accept import main

if __name__ == "__main__":
    sys.exit(main())
