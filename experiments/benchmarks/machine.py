"""Measurements of this machine: its speeds, and the memory of a process."""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from circuitax.kernel.keys import uniforms

PEAK_SIZE, COPY_WORDS, DRAWN_WORDS = 2048, 2**25, 2**22  # the copy is far beyond any cache


class Speeds(NamedTuple):
    """Operations of a large float32 product, bytes of a copy, uniform numbers drawn, a second."""

    matmul: float
    memory: float
    generator: float


def seconds(compute: Callable[..., Any], *arguments: Any) -> float:
    """Seconds of a call, until what it returns is there."""
    start = time.perf_counter()
    jax.block_until_ready(compute(*arguments))
    return time.perf_counter() - start


def machine_speeds() -> Callable[[], Speeds]:
    """A function that measures this machine's speeds, each the best of three."""
    square = jax.random.normal(jax.random.key(0), (PEAK_SIZE, PEAK_SIZE), jnp.float32)
    words = jnp.zeros(COPY_WORDS, jnp.float32)
    product = jax.jit(lambda x: x @ x)
    # In place, since new pages cost more than the bytes that are written to them.
    pass_over = jax.jit(lambda x: x + 1, donate_argnums=0)
    draw = jax.jit(lambda key: uniforms(key, (DRAWN_WORDS,)))

    def copy() -> jax.Array:
        nonlocal words
        words = pass_over(words)
        return words

    def least(compute: Callable[..., jax.Array], *arguments: Any) -> float:
        return min(seconds(compute, *arguments) for _ in range(3))

    def measure() -> Speeds:
        return Speeds(
            2.0 * PEAK_SIZE**3 / least(product, square),
            8.0 * COPY_WORDS / least(copy),
            DRAWN_WORDS / least(draw, jax.random.key(1)),
        )

    measure()  # compiles
    return measure


def peak_mb() -> float:
    """The most that this process ever held, in MB.

    Not ``ru_maxrss`` where the kernel tells better: a process inherits that from its parent.
    """
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _status_mb("VmHWM:", most / (2**20 if sys.platform == "darwin" else 2**10))


def present_mb() -> float:
    """Present memory of this process, in MB; its peak where the kernel does not tell."""
    return _status_mb("VmRSS:", peak_mb())


def _status_mb(name: str, otherwise: float) -> float:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), otherwise)


def forget_peak() -> None:
    """Reset the recorded peak to this process's present use, where the kernel can do so."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def alone(module: str, *arguments: object) -> float:
    """What a module of this folder prints in a fresh process, such as its peak of memory."""
    command = [sys.executable, "-m", f"experiments.benchmarks.{module}", *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)
