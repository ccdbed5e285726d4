"""Run one experiment, or a sweep of it: ``python -m experiments.run experiment=toy_intro``."""

import sys

from circuitax.commands.run import main
from circuitax.lab.cores import one_device_a_core

if __name__ == "__main__":
    one_device_a_core()
    sys.exit(main())
