"""From typing ``experiments.run`` to its first steps, with compiled code on disk already."""

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

from circuitax.config.catalogue import discover
from circuitax.lab.runs import VARIABLE
from experiments.benchmarks.case import Case

# What is started, and the seconds that it may take.
EXPERIMENTS = {"toy_intro": 1.5, "text_models": 2.5}
PATIENCE_SECONDS = 300.0


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
    """Start a run in a folder of its own, and stop it after its first chunk.

    Raises:
        RuntimeError: If it ends, or five minutes pass, before that.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "experiments.run", f"experiment={experiment}"]
        began = time.perf_counter()
        process = subprocess.Popen(
            [*command, "scale=tiny"],
            env=os.environ | {VARIABLE: folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while (chunk := _first_chunk(Path(folder))) is None:
                if process.poll() is not None:
                    raise RuntimeError(f"{experiment} ended before its first steps")
                if time.perf_counter() - began > PATIENCE_SECONDS:
                    raise RuntimeError(f"{experiment} took no step in {PATIENCE_SECONDS:.0f} s")
                time.sleep(0.01)
            total = time.perf_counter() - began
        finally:
            process.terminate()
            process.wait()
    return Start(total, chunk, imports_alone(experiment))


def imports_alone(experiment: str) -> float:
    """Seconds of a process with the imports of the command and the experiment alone."""
    modules = (
        "circuitax.commands.job",
        "circuitax.commands.launch",
        "circuitax.config.planned_runs",
    )
    wanted = ", ".join([*modules, f"{discover()[experiment].package}.experiment"])
    code = f"from circuitax.commands.first_steps import defer_work; defer_work(); import {wanted}"
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


def _first_chunk(folder: Path) -> float | None:
    # A run keeps one line a chunk, in its work folder until it is whole.
    for path in folder.rglob("metrics.jsonl"):
        first, end, _ = path.read_text(encoding="utf-8").partition("\n")
        if end:
            return float(json.loads(first)["seconds"])
    return None
