"""From typing ``experiments.run`` to its first steps, with compiled code on disk already."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from typing import NamedTuple

from circuitax.config.catalogue import discover
from circuitax.lab.runs import VARIABLE
from experiments.benchmarks.case import Case

# What is started, and the seconds that it may take.
EXPERIMENTS = {"toy_intro": 1.5, "text_models": 2.5}
PATIENCE_SECONDS = 300.0
# Prints the seconds of the first chunk, and ends there.
UNTIL_THE_FIRST_CHUNK = """
import os, time
from circuitax.commands.cli import enter
from circuitax.lab import loop

class First:
    def __init__(self, *args, **kwargs):
        self.began = time.perf_counter()
    def advance(self, shown=""):
        print(time.perf_counter() - self.began, flush=True)
        os._exit(0)
    def close(self):
        pass

loop.Progress = First
enter("run")
"""


class Start(NamedTuple):
    """Time at which a run had done its first chunk of steps.

    Attributes:
        total: Seconds since the process was started.
        chunk: Seconds of that which the chunk took, with its compilation or the reading of it.
        imports: Seconds that a process of the same imports takes, and no more.
    """

    total: float
    chunk: float
    imports: float


def cases(_: ExitStack) -> list[Case]:
    """One toy ensemble, one of transformers."""
    return [_case(*item) for item in EXPERIMENTS.items()]


def first_steps(experiment: str) -> Start:
    """Start a run in a folder of its own, and end it after its first chunk.

    Raises:
        RuntimeError: If it ends, or five minutes pass, before that.
    """
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", UNTIL_THE_FIRST_CHUNK, f"experiment={experiment}", "scale=tiny"],
            env=os.environ | {VARIABLE: folder},
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        total = time.perf_counter() - began
    if not done.stdout:
        raise RuntimeError(f"{experiment} ended before its first steps")
    return Start(total, float(done.stdout), imports_alone(experiment))


def imports_alone(experiment: str) -> float:
    """Seconds of a process with the imports of the command and the experiment alone."""
    modules = ("circuitax.commands.run", "circuitax.config.plan", "circuitax.lab.execute")
    code = f"import {', '.join([*modules, f'{discover()[experiment].package}.experiment'])}"
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def _case(experiment: str, seconds: float) -> Case:
    starts: list[Start] = []

    def ours() -> float:
        starts.append(first_steps(experiment))
        return starts[-1].total

    def parts() -> dict[str, float]:
        shares = {
            "imports": [each.imports / each.total for each in starts],
            "the first chunk, traced, its code read and run": [
                each.chunk / each.total for each in starts
            ],
        }
        found = {name: statistics.median(each) for name, each in shares.items()}
        return found | {"configuration and the rest": max(0.0, 1 - sum(found.values()))}

    return Case(
        name=f"start of `experiments.run experiment={experiment} scale=tiny` to its first steps",
        unit="s",
        ours=ours,
        wanted=f"{seconds:g} s",
        floors={"imports": lambda: starts[-1].imports},
        parts=parts,
        note="a new process, imports and configuration with it, compiled code in the cache of the "
        "round before",
    )
