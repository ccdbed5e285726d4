"""Explain one prediction of a model: ``python -m experiments.explain smollm2 "text"``."""

import sys

from circuitax.commands.cli import enter

if __name__ == "__main__":
    sys.exit(enter("explain"))
