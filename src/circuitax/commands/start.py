"""The start of ``experiments.run`` in a separate process, before any import."""

from circuitax.commands.first_steps import defer_work


def start() -> int:
    """Import the command's modules, and run it; returns its exit status."""
    defer_work()
    from circuitax.commands.run import main
    from circuitax.cores import one_device_a_core

    one_device_a_core()
    return main()
