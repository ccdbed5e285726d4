"""Draw the figures of a run again from disk: ``python -m experiments.render RUN``."""

import sys

from circuitax.commands.render import main

if __name__ == "__main__":
    sys.exit(main())
