"""Continue a text with a trained model: ``python -m experiments.generate RUN "import os"``."""

import sys

from circuitax.commands.cli import enter

if __name__ == "__main__":
    sys.exit(enter("generate"))
