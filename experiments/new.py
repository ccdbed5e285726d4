"""Begin an experiment: ``python -m experiments.new NAME`` writes one that runs at once."""

import sys

from circuitax.commands.cli import enter

if __name__ == "__main__":
    sys.exit(enter("new"))
