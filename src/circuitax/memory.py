"""Memory of this machine; larger requests are refused before any allocation."""

import os

# A sweep is checked where it is started, which on a cluster may have less than the nodes have.
_LEAST = 2**36


def machine_bytes() -> int | None:
    """Bytes of this machine's memory; None where the system does not say."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # no such function, name, or answer
        return None
    return found if found > 0 else None


def askable_bytes() -> int:
    """Memory that a configuration may ask for: this machine's, or 64 GiB where it has less."""
    return max(machine_bytes() or 0, _LEAST)
