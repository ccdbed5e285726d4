"""Run one experiment, or a sweep of it: ``python -m experiments.run experiment=toy_intro``."""

import sys

from circuitax.commands.cli import enter

if __name__ == "__main__":
    sys.exit(enter("run"))
