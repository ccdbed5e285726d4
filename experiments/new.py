"""Begin an experiment: ``python -m experiments.new NAME`` writes one that runs at once."""

import sys

from circuitax.commands.entry import enter

if __name__ == "__main__":
    sys.exit(enter("circuitax.commands.new"))
