"""Memory of this machine: a file that declares more is refused before any allocation."""

import os


def machine_bytes() -> int | None:
    """Bytes of this machine's memory; None where the system does not say."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # no such function, name, or answer
        return None
    return found if found > 0 else None
