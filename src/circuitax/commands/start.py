"""The start of ``experiments.run`` in a process of its own, before anything is imported."""

from circuitax.commands.first_steps import put_off


def start() -> int:
    """Import what the command needs, and run it; its exit status."""
    put_off()
    from circuitax.commands.run import main
    from circuitax.lab.cores import one_device_a_core

    one_device_a_core()
    return main()
