"""The start of ``experiments.run`` in a process of its own, before anything is imported."""

import gc

from circuitax.lazy import import_later


def start() -> int:
    """Import what the command needs, and run it; its exit status.

    Nearly all that a start makes is there to stay. To look through it for garbage, again and again,
    would take a seventh of the time to the first step, so that the collector rests until
    `resume_collection`.
    """
    gc.disable()
    import_later("xarray")  # with pandas a quarter of all imports, for a record at the end
    from circuitax.commands.run import main
    from circuitax.lab.cores import one_device_a_core

    one_device_a_core()
    return main()


def resume_collection() -> None:
    """Collect garbage again if `start` has stopped it, but never look at what is there by now."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
