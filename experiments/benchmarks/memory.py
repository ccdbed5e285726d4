"""The peak of memory of this process, and of one that only starts JAX.

    python -m experiments.benchmarks.memory

prints the latter, in MB: what every row of memory holds at least, beside its data.
"""

import resource
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path


def peak_mb() -> float:
    """The most that this process ever held, in MB.

    Not ``ru_maxrss`` where the kernel tells better: a process inherits that from whoever started
    it, so a small one started by a large benchmark would look large.
    """
    found = _status_mb("VmHWM:")
    if found is not None:
        return found
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)


def present_mb() -> float:
    """Present memory of this process, in MB; its peak where the kernel does not tell."""
    found = _status_mb("VmRSS:")
    return peak_mb() if found is None else found


def _status_mb(name: str) -> float | None:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = [int(line.split()[1]) / 1024 for line in lines if line.startswith(name)]
    return found[0] if found else None


def forget_peak() -> None:
    """Reset the recorded peak to this process's present use, where the kernel can do so."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


@cache  # the same in every round
def jax_alone_mb() -> float:
    """The peak of a fresh process that compiles and runs the smallest program, in MB."""
    command = [sys.executable, "-m", "experiments.benchmarks.memory"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


if __name__ == "__main__":
    import jax  # not above: it would count as memory of whoever only asks for a peak
    import jax.numpy as jnp

    jax.block_until_ready(jax.jit(lambda x: x + 1)(jnp.zeros(1)))
    print(peak_mb())
