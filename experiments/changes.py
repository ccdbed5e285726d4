"""Which claims are not as the last release had them: ``python -m experiments.changes``."""

import sys

from circuitax.commands.changes import main

if __name__ == "__main__":
    sys.exit(main())
