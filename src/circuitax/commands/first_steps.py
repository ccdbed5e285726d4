"""Startup of a run, without slow imports or garbage collection."""

import gc

from circuitax.lazy import import_later


def defer_work() -> None:
    """Defer work that the first steps of a run do not need.

    This is xarray, which with pandas is a fifth of all imports, for a record at the end; and the
    search for garbage, which takes a seventh of a start that makes hardly any, up to
    `resume_collection`.
    """
    import_later("xarray")
    gc.disable()


def resume_collection() -> None:
    """Resume garbage collection after `defer_work`, with all present objects exempt."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
