"""Entry of a command: deferred imports, and one line for Ctrl-C in the meantime."""

import importlib
import signal
import sys


def enter(module: str, function: str = "main") -> int:
    """Call a function without arguments, named by its module; returns its exit status.

    Args:
        module: Import name.
        function: Returns the exit status.
    """
    try:
        status: int = getattr(importlib.import_module(module), function)()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 128 + signal.SIGINT
    return status
