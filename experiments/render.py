"""Draw the figures of a run again from disk: ``python -m experiments.render RUN``."""

import sys

from circuitax.commands.cli import enter

if __name__ == "__main__":
    sys.exit(enter("render"))
