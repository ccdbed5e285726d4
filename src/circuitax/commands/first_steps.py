"""The first steps of a run, which wait neither for slow imports nor for the search for garbage."""

import gc

from circuitax.lazy import import_later


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
