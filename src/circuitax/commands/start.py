"""The start of ``experiments.run`` in a process of its own, before anything is imported."""

import gc

from circuitax.lazy import import_later


def start() -> int:
    """Import what the command needs, and run it; its exit status."""
    put_off()
    from circuitax.commands.run import main
    from circuitax.lab.cores import one_device_a_core

    one_device_a_core()
    return main()


def put_off() -> None:
    """Leave to later what the first steps of a run can do without.

    This is xarray, which with pandas is a fifth of all imports, for a record at the end; and the
    search for garbage, which takes a seventh of a start that makes hardly any, up to
    `resume_collection`.
    """
    import_later("xarray")
    gc.disable()


def resume_collection() -> None:
    """Collect garbage again if `put_off` has stopped it, but never look at what is there by now."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
