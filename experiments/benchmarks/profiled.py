"""Time profile of compiled programs: one round under XLA's profiler."""

import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax

# Names that XLA's CPU compiler gives to what it runs. Loops and calls hold others, which count.
PRODUCTS = re.compile(r"dot|ynn|matmul|gemm|convolution")
COPIES = re.compile(r"copy|transpose|concatenate|slice|pad|gather|scatter")
CONTROL = re.compile(r"while|call|conditional|tuple|parameter|bitcast(\.\d+)?$")
NAME = re.compile(r"[a-z][a-z0-9_-]*(\.\d+)*")


def time_by_kind(compute: Callable[[], Any]) -> dict[str, float]:
    """Shares of matrix products, of copies and slices, and of all else, in one call.

    Shares of the time that threads spent inside operations; what they waited is not part of it.
    Empty on another device than a CPU, whose operations have other names, and where no name is
    known.

    Args:
        compute: Runs compiled code and waits for it; compiled beforehand.
    """
    if jax.default_backend() != "cpu":
        return {}
    with tempfile.TemporaryDirectory() as folder:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        with jax.profiler.trace(folder, profiler_options=options):
            compute()
        (path,) = Path(folder).rglob("*.xplane.pb")
        profile = jax.profiler.ProfileData.from_file(str(path))
        spent: dict[str, float] = defaultdict(float)
        for plane in profile.planes:
            for line in plane.lines:
                for event in line.events:
                    spent[event.name] += event.duration_ns
    return shares_by_kind(spent)


def shares_by_kind(spent: Mapping[str, float]) -> dict[str, float]:
    """Time by name of operation, as shares of the three kinds; empty if none is an operation.

    Args:
        spent: Time of every event of a profile, those that are no operations included.
    """
    kinds: dict[str, float] = defaultdict(float)
    for name, time in spent.items():
        if not NAME.fullmatch(name) or CONTROL.match(name):
            continue
        if PRODUCTS.search(name):
            kinds["matrix products"] += time
        elif COPIES.search(name):
            kinds["copies and slices"] += time
        else:
            kinds["other operations"] += time
    total = sum(kinds.values())
    return {name: time / total for name, time in kinds.items()} if total else {}
