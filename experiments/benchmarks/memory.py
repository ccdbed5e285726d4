"""The peak of memory of this process."""

import resource
from pathlib import Path


def peak_mb() -> float:
    """The most that this process ever held, in MB.

    Not ``ru_maxrss`` where the kernel tells better: a process inherits that from whoever started
    it, so a small one started by a large benchmark would look large.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
