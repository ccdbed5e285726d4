"""Compiled code: compile times, precision, a cache on disk, and release in long-lived processes."""

import ctypes
import gc
import hashlib
import math
import os
import platform
import resource
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import jax

from circuitax.lab.leftovers import CODE_BYTES, remove_beyond

_PROCESS = Path("/proc/self")
# What JAX reports of a program: tracing, lowering, and compilation or reading from the cache.
_COMPILE = "/jax/core/compile/"
# Bytes that must be free on the disk where compiled code is kept.
_ROOM = 100_000_000


class Footprint(NamedTuple):
    """Resource use of a process.

    Attributes:
        maps: Pieces of mapped memory, of which Linux grants 65,530 to a process by default; 0 on
            systems that do not say.
        megabytes: Memory in use; the most that was ever in use on systems that do not say more.
    """

    maps: int
    megabytes: float


def footprint() -> Footprint:
    """Current resource use of this process."""
    try:
        maps = (_PROCESS / "maps").read_bytes().count(b"\n")
        pages = int((_PROCESS / "statm").read_text().split()[1])
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return Footprint(0, most / (2**20 if sys.platform == "darwin" else 2**10))
    return Footprint(maps, pages * resource.getpagesize() / 2**20)


@contextmanager
def compile_seconds(part: str = "") -> Iterator[Callable[[], float]]:
    """Seconds of tracing, lowering and compiling in this process within the block.

    Code that is read from the cache on disk counts with the time to read it. What happened at once,
    in several threads or while one program traced another, counts once.

    Args:
        part: How the names of JAX's events begin that count, behind ``/jax/core/compile/``; all of
            them where empty, and XLA's own work where ``backend_compile``.
    """
    spans: list[tuple[float, float]] = []

    def listen(event: str, start_time: float, end_time: float, **_: str | int) -> None:
        if event.startswith(_COMPILE + part):
            spans.append((start_time, end_time))

    jax.monitoring.register_event_time_span_listener(listen)
    try:
        yield lambda: covered(spans)
    finally:
        jax.monitoring.unregister_event_time_span_listener(listen)


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of intervals, each from its start to its end."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def release_compiled_code() -> None:
    """Drop all compiled programs of this process, and return their memory to the system.

    The cache on disk keeps the code.
    """
    jax.clear_caches()
    gc.collect()  # compiled functions and what they refer to form circles
    return_freed_memory()


def return_freed_memory() -> None:
    """Return this process's free memory to the system."""
    if sys.platform == "linux":
        # The C library keeps what was freed, and a process that compiles on would only grow. Others
        # than glibc have no such function.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def keep_compiled_code(folder: Path) -> Path:
    """Turn JAX's persistent compilation cache on, for this type of processor.

    Code compiled for one processor may crash on another, and home folders are shared between
    machines, so the processor's features are part of the path. What was used least recently goes
    when the cache has grown beyond `leftovers.CODE_BYTES`.

    Args:
        folder: Parent of the caches, ignored by git.

    Returns:
        The cache's folder; it is not used where it cannot be made, and only read where it cannot be
        written or the disk is nearly full.
    """
    target = folder / "xla" / processor()
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError:  # a checkout that is read-only: everything is compiled anew
        return target
    takes_more = os.access(target, os.W_OK)
    if takes_more:
        remove_beyond(target, CODE_BYTES)
        # What JAX writes to a full disk is cut short, and stays so.
        takes_more = shutil.disk_usage(target).free > _ROOM
    # A disk that fills up meanwhile costs time alone, and is said where results are written.
    warnings.filterwarnings("ignore", "Error writing persistent compilation cache entry")
    jax.config.update("jax_compilation_cache_dir", str(target))
    # Toy models compile in less than JAX's default threshold of a second, many times over.
    seconds = 0.0 if takes_more else math.inf
    jax.config.update("jax_persistent_cache_min_compile_time_secs", seconds)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return target


def multiply_in_float32() -> None:
    """Multiply float32 matrices in float32 on every device, unless a setting of JAX says how.

    By default a GPU rounds the factors to TF32 (11 bits) and a TPU to bfloat16 (8 bits): on an H200
    sums of paths closed to 6e-4 and not to 1e-6. A CPU computes in float32 either way.
    ``JAX_DEFAULT_MATMUL_PRECISION=tensorfloat32`` keeps the faster products.
    """
    if jax.config.values["jax_default_matmul_precision"] is None:
        jax.config.update("jax_default_matmul_precision", "highest")


def processor() -> str:
    features = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        kept = ("model name", "flags", "Features", "CPU part")
        lines = cpuinfo.read_text().split("\n\n")[0].split("\n")
        features = "\n".join(sorted(line for line in lines if line.startswith(kept)))
    digest = hashlib.sha256(features.encode()).hexdigest()[:8]
    return f"{platform.machine()}-{digest}"
