"""The first `find_optimum` of a process, with no compiled code on disk and with all of it.

    python -m experiments.benchmarks.first_optimum 5 2 8 16

does it and prints where the time went, as JSON, which the table's rows ask of a fresh process.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from circuitax.lab.compilation import compile_seconds
from circuitax.superposition.optimum import find_optimum
from experiments.benchmarks.case import Case

MODULE = "experiments.benchmarks.first_optimum"
WANTED = "3 s beside the imports"


class Size(NamedTuple):
    """Size of the optimised problem."""

    n_features: int = 5
    n_hidden: int = 2
    n_cells: int = 8
    n_restarts: int = 16


class First(NamedTuple):
    """Measurements of one process.

    Attributes:
        whole: Seconds from its start to its first optima.
        call: Of that, the call.
        tracing: Of the call, until there are programs for XLA.
        compiling: Of the call, in XLA, or reading from the cache what XLA made.
        again: Seconds of the same call once more.
    """

    whole: float
    call: float
    tracing: float
    compiling: float
    again: float


def cases(stack: ExitStack) -> list[Case]:
    """With an empty cache on disk, and with that of the round before."""
    filled = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    return [_case(Size(), None), _case(Size(), filled)]


def first_optimum(size: Size, cache: Path | None) -> First:
    """Seconds of a process that finds optima, with compiled code cached in a folder.

    Args:
        size: What is optimised.
        cache: The folder; None for one that is empty, and removed afterwards.
    """
    if cache is None:
        with tempfile.TemporaryDirectory() as folder:
            return first_optimum(size, Path(folder))
    kept = {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, "-m", MODULE, *map(str, size)]
    began = time.perf_counter()
    done = subprocess.run(
        command, env=os.environ | kept, check=True, capture_output=True, text=True
    )
    whole = time.perf_counter() - began
    told = json.loads(done.stdout)
    return First(whole - told["again"], **told)


def imports_alone() -> float:
    """Seconds of a process that imports the same and no more."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {MODULE}"], check=True)
    return time.perf_counter() - began


def _case(size: Size, cache: Path | None) -> Case:
    found: list[First] = []

    def ours() -> float:
        found.append(first_optimum(size, cache))
        return found[-1].whole

    def parts() -> dict[str, float]:
        each = {
            "start and imports": [(one.whole - one.call) / one.whole for one in found],
            "tracing": [one.tracing / one.whole for one in found],
            "compiling" if cache is None else "reading compiled code": [
                one.compiling / one.whole for one in found
            ],
        }
        shares = {name: statistics.median(values) for name, values in each.items()}
        return shares | {"computing": max(0.0, 1 - sum(shares.values()))}

    n, m, n_cells, n_restarts = size
    code = "no compiled code on disk" if cache is None else "compiled code on disk"
    return Case(
        name=f"first `find_optimum` of a process, {code}",
        unit="s",
        ours=ours,
        wanted=WANTED if cache is None else "",
        floors={"imports and computing": lambda: imports_alone() + found[-1].again},
        parts=parts,
        note=f"{n_cells} densities of {n} features in {m} dimensions, {n_restarts} restarts, in "
        "float64; from the start of the process; computing is the same call once more",
    )


def _process(size: Size) -> dict[str, float]:
    """Report of a process on its two calls."""
    n, m, n_cells, n_restarts = size
    density = jnp.repeat(jnp.logspace(-2, 0, n_cells)[:, None], n, axis=1)

    def call() -> float:
        began = time.perf_counter()
        find_optimum(
            jax.random.key(0),
            density,
            jnp.ones_like(density),
            n_hidden=m,
            n_restarts=n_restarts,
            thorough=False,
        )
        return time.perf_counter() - began

    with compile_seconds() as all_seconds, compile_seconds("backend_compile") as compiled:
        first = call()
        told = {"tracing": all_seconds() - compiled(), "compiling": compiled()}
    return {"call": first, **told, "again": call()}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    print(json.dumps(_process(Size(*map(int, sys.argv[1:])))))
