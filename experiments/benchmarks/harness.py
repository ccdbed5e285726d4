"""The benchmark table: every row a ratio to a real alternative, measured in the same run.

    python -m experiments.benchmark [--only toy_training] [--rounds 7] [--out results]

Discovers ``experiments/benchmarks/*.py`` that define ``cases``; peers live in ``.venv-bench``. With
``--only`` the rows of other modules stay in the table as they were measured. A module that says
``WHEN_NAMED`` takes long, and is measured only when it is named. Each kind of processor has a file
of its own in ``results/benchmarks/``; the page shows the newest, beside the others' ratios.
"""

import argparse
import importlib
import json
import os
import platform
import re
import statistics
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import jax
import numpy as np
from tqdm import tqdm

from circuitax.cores import n_cores
from experiments.benchmarks.machine import Speeds, forget_peak, machine_speeds, peak_mb, present_mb
from experiments.benchmarks.page import identity, page

FOLDER = Path(__file__).parent
PYTHON = FOLDER.parents[1] / ".venv-bench" / "bin" / "python"
SLOWEST = 0.85  # a round is noisy where products are slower than this share of the best speed
TOLERANCE = 1e-3  # between the two sides, of the largest value
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A measurement, its peer, and the expected ratio; ``unit`` is such as ``"ms a step"``."""

    name: str
    unit: str
    ours: Callable[[], float]  # does one round and returns its figure in this unit
    theirs: Callable[[], float] | None = None  # the same work by the peer
    peer: str = ""  # with version and setting
    target: float | None = None  # least ratio theirs / ours
    wanted: str = ""  # of ours: an amount with its unit, and a share of the limit
    flops: float = 0.0  # of the matrix products that one figure of ours needs
    moved: float = 0.0  # bytes to and from memory at least
    draws: float = 0.0  # random words of 32 bits at least
    seconds: float = 1.0  # factor from the unit to seconds
    once: bool = False  # one round of minutes, without one beforehand
    note: str = ""  # what a reader must know to judge the figure


class Round(NamedTuple):
    """Figures of one round of both sides, the machine's speeds, and memory in MB during ours."""

    ours: float
    theirs: float | None
    speeds: Speeds
    peak: float
    grown: float


class Peer:
    """A script of ``peers`` in its own environment; stays warm between requests, a JSON line each.

    It may use as many threads as we do. An ``ExitStack`` or ``with`` ends it.
    """

    def __init__(self, script: str) -> None:
        if not PYTHON.exists():
            raise FileNotFoundError("the peers' environment is missing; run `make benchmark`")
        # Nothing of ours on their path.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        self._process = subprocess.Popen(
            [str(PYTHON), str(FOLDER / "peers/serve.py"), script, str(n_cores())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to one request."""
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = cast(IO[str], self._process.stdout).readline()
        if not answer:
            raise RuntimeError(f"the peer ended with status {self._process.wait()} on {request}")
        return json.loads(answer)

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()  # closes its input, at which its loop ends

    def round(
        self,
        ours: Callable[[], Any] | None = None,
        *,
        key: str = "seconds",
        scale: float = 1.0,
        tolerance: float = TOLERANCE,
        **request: Any,
    ) -> Callable[[], float]:
        """Rounds that ask for the same: a figure times ``scale``; the first values must be ours."""
        unchecked = ours

        def theirs() -> float:
            nonlocal unchecked
            answer = self.ask(**request, values=unchecked is not None)
            if unchecked is not None:
                require_close(unchecked(), answer["values"], tolerance)
                unchecked = None
            return scale * answer[key]

        return theirs


def against(ours: Callable[[], Any], theirs: Callable[[], Any]) -> Callable[[], float]:
    """Rounds of another computation in this process, whose values must be ours."""
    wanted = np.asarray(ours())

    def their_round() -> float:
        start = time.perf_counter()
        found = theirs()
        spent = time.perf_counter() - start
        require_close(wanted, found)
        return spent

    return their_round


def require_close(ours: Any, theirs: Any, tolerance: float = TOLERANCE) -> None:
    """Refuse numbers that differ by more than this of the largest; NaN of ours is 0 of theirs."""
    ours, theirs = np.nan_to_num(np.asarray(ours)), np.asarray(theirs)
    gap = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    if not gap <= tolerance:
        raise RuntimeError(f"the two sides differ by {gap:.2g} of the largest value")


def one_round(case: Case, speeds: Callable[[], Speeds]) -> Round:
    """The machine's speeds, ours, theirs, one after the other."""
    now = speeds()
    forget_peak()
    present, ours, peak = present_mb(), case.ours(), peak_mb()
    return Round(ours, case.theirs and case.theirs(), now, peak, peak - present)


def measure(case: Case, n_rounds: int, speeds: Callable[[], Speeds]) -> Row:
    """One row from rounds in turns, behind one of each side that does not count."""
    if not case.once:
        for warm in filter(None, (case.ours, case.theirs)):
            warm()
    return row_of(case, [one_round(case, speeds) for _ in range(1 if case.once else n_rounds)])


def row_of(case: Case, rounds: list[Round]) -> Row:
    """Medians, and the ratio as the median of each round's own, since the load drifts."""
    samples = [each.ours for each in rounds]
    fastest = max(each.speeds.matmul for each in rounds)
    row: Row = {
        "name": case.name,
        "unit": case.unit,
        "ours": statistics.median(samples),
        "peer": case.peer,
        "target": case.target,
        "wanted": case.wanted,
        "rounds": len(rounds),
        "noisy_rounds": sum(each.speeds.matmul < SLOWEST * fastest for each in rounds),
        "note": case.note,
        "samples_ours": samples,
        "peak_mb": max(each.peak for each in rounds),
        "grown_mb": max(each.grown for each in rounds),
    }
    theirs = [each.theirs for each in rounds if each.theirs is not None]
    if theirs:
        ratios = [each / ours for each, ours in zip(theirs, samples, strict=True)]
        row |= {"theirs": statistics.median(theirs), "ratio": statistics.median(ratios)}
        row |= {"ratio_low": min(ratios), "ratio_high": max(ratios), "samples_theirs": theirs}
    needs = {
        "matmul peak": case.flops,
        "memory bandwidth": case.moved,
        "random numbers": case.draws,
    }
    shares = {
        name: statistics.median(
            need / each.speeds[i] / (case.seconds * each.ours) for each in rounds
        )
        for i, (name, need) in enumerate(needs.items())
        if need
    }
    if shares:
        limit = max(shares, key=shares.__getitem__)
        row |= {"limit": limit, "share_of_limit": shares[limit], "shares_of_limits": shares}
    return row


def discover() -> dict[str, Any]:
    """Name and module of every benchmark that defines ``cases``, in alphabetical order."""
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    modules = {name: importlib.import_module(f"experiments.benchmarks.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "cases")}


def this_machine(speeds: Speeds) -> dict[str, Any]:
    """Facts of the machine and of the versions that measure."""
    return {
        "cores": n_cores(),
        "processor": processor(),
        "backend": jax.default_backend(),
        "load_before": os.getloadavg()[0],
        **speeds._asdict(),
        "jax": jax.__version__,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


def processor() -> str:
    """The device that measures: a CPU's name with family and model, ``"AMD EPYC 25 17"``."""
    if jax.default_backend() != "cpu":
        return jax.devices()[0].device_kind
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    facts = dict(re.findall(r"^(\w+(?: \w+)?)\s*: (.+)$", text, re.M))
    wanted = ("model name", "cpu family", "model")
    return " ".join(facts[key] for key in wanted if key in facts) or platform.machine()


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(
        prog="experiments.benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="benchmark modules, separated by commas")
    parser.add_argument("--rounds", type=int, default=7, help="alternating rounds, 5 or more")
    parser.add_argument("--out", type=Path, default=FOLDER.parents[1] / "results")
    options = parser.parse_args(arguments)
    known = discover()
    usual = [name for name, module in known.items() if not getattr(module, "WHEN_NAMED", False)]
    chosen = [name for name in options.only.split(",") if name] or usual
    if unknown := [name for name in chosen if name not in known]:
        parser.error(f"--only={unknown[0]} must be one of {', '.join(known)}")
    if options.rounds < 1:
        parser.error(f"--rounds={options.rounds} must be at least 1")
    speeds = machine_speeds()
    machine = this_machine(speeds())
    own = [x for x in tables(options.out) if x["machine"]["processor"] == machine["processor"]]
    rows = own[0]["rows"] if own else []
    with ExitStack() as stack:
        todo = [(name, case) for name in chosen for case in known[name].cases(stack)]
        present = {identity({"name": case.name, "peer": case.peer}) for _, case in todo}
        # A run that is stopped keeps the rows that it did not reach, but none without a case.
        rows = [row for row in rows if row["module"] not in chosen or identity(row) in present]
        for name, case in tqdm(todo, unit="row", disable=None):
            made = {"module": name, "date": machine["date"]}
            rows = replaced(rows, made | measure(case, options.rounds, speeds))
            text = write(rows, machine, options.out)
    print(text)


def replaced(rows: list[Row], new: Row) -> list[Row]:
    """The table with a row in the place of the same one before, modules in their order."""
    table = {identity(row): row for row in rows} | {identity(new): new}
    return sorted(table.values(), key=lambda row: row["module"])


def tables(folder: Path) -> list[dict[str, Any]]:
    """Machine and rows of every kind of processor measured so far, the newest first."""
    found = [json.loads(path.read_text("utf-8")) for path in (folder / "benchmarks").glob("*.json")]
    return sorted(found, key=lambda table: table["machine"]["date"], reverse=True)


def write(rows: list[Row], machine: dict[str, Any], folder: Path) -> str:
    """The table of this processor as a file, and the page of all."""
    name = re.sub(r"[^a-z0-9]+", "-", machine["processor"].lower())
    path = folder / "benchmarks" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1), encoding="utf-8")
    text = page(tables(folder))
    (folder / "benchmarks.md").write_text(text, encoding="utf-8")
    return text
