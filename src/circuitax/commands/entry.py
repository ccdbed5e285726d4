"""The way into a command: what it needs is imported here, and Ctrl-C meanwhile is one line."""

import importlib
import signal
import sys


def enter(module: str, function: str = "main") -> int:
    """Call a function without arguments, named by its module; its exit status.

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
