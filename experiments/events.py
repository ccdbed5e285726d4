"""Metrics of a run as TensorBoard event files: ``python -m experiments.events run=NAME/RUN``."""

import sys

from circuitax.commands.entry import enter

if __name__ == "__main__":
    sys.exit(enter("circuitax.commands.events"))
