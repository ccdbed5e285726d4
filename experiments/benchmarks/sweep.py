"""A sweep over shapes: seconds a job, and the memory growth of its workers.

Every job has a shape of its own, and compiles its code: nothing is read from a cache on disk.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from circuitax.lab.runs import COMPILING, DRAWING, VARIABLE, times_of
from experiments.benchmarks.case import Case
from experiments.benchmarks.contention import family
from experiments.benchmarks.start_up import imports_alone

JOBS = 10
FIRST = 6
# Of the growth of a sweep of any length; a worker that has grown beyond is replaced.
MOST_MAPS, MOST_MEGABYTES = 3000, 300.0
TARGET_SECONDS = 4.0
FLOOR = "imports of one worker, and compiling"
_SWEEP = (
    "experiment=toy_intro",
    "scale=tiny",
    "optim.steps=100",
    "model.n_hidden=3",
    "task.sparsity=[0.5]",
    "task.importance_base=[0.9]",
)
# Random starts of the exact optimum in each job; with 0 the optimum is left out.
RESTARTS = 2
# Between two looks at the workers.
_INTERVAL = 0.1
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Sweep(NamedTuple):
    """Measurements of one sweep.

    Attributes:
        seconds: A job, on average, with the reading and checking of the whole sweep.
        compiling: Of that, what the job says that it compiled.
        drawing: Of that, what it says that it drew its figures.
        maps: The most pieces of mapped memory of a process, less those after the first job.
        megabytes: The same of memory.
    """

    seconds: float
    compiling: float
    drawing: float
    maps: int
    megabytes: float


class Watch:
    """Peak memory of the largest process of a family, by polling."""

    def __init__(self, root: int, results: Path) -> None:
        self.first, self.most = (0, 0.0), (0, 0.0)
        self._root, self._results = root, results
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_INTERVAL):
            now = occupied(family(self._root))
            self.most = (max(self.most[0], now[0]), max(self.most[1], now[1]))
            # Until the second job has ended, so that the first one's size is whole.
            if len(list(self._results.glob("toy_intro/*/provenance.json"))) < 2:
                self.first = self.most


def cases(_: ExitStack) -> list[Case]:
    """Time of a job, and growth in maps and memory, of the same sweeps."""
    measured: list[Sweep] = []
    plain: list[Sweep] = []

    def seconds() -> float:
        measured.append(sweep())
        return measured[-1].seconds

    def plain_seconds() -> float:
        plain.append(sweep(restarts=0))
        return plain[-1].seconds

    def latest() -> Sweep:
        return measured[-1] if measured else sweep()

    def start_and_code(sweeps: list[Sweep]) -> float:
        return imports_alone("toy_intro") / JOBS + sweeps[-1].compiling

    def parts(sweeps: list[Sweep]) -> dict[str, float]:
        shares = {
            name: statistics.median(getattr(each, name) / each.seconds for each in sweeps)
            for name in (COMPILING, DRAWING)
        }
        return shares | {"all else, from the start to the checks": 1 - sum(shares.values())}

    what = f"{JOBS} jobs of `toy_intro scale=tiny`, each with features of another number"
    return [
        Case(
            name=f"a sweep of {what}",
            unit="s a job",
            ours=seconds,
            wanted=f"{TARGET_SECONDS:g} s a job",
            floors={FLOOR: partial(start_and_code, measured)},
            parts=partial(parts, measured),
            note="the start of the sweep, its checks and its one worker with it, code compiled for "
            "every shape, none in a cache on disk; the jobs say how long they compile",
        ),
        Case(
            name="the same sweep without the exact optimum (`restarts=0`)",
            unit="s a job",
            ours=plain_seconds,
            wanted=f"{TARGET_SECONDS:g} s a job",
            floors={FLOOR: partial(start_and_code, plain)},
            parts=partial(parts, plain),
            note="training, exact losses and figures, but not what could have been reached",
        ),
        Case(
            name="growth of its largest process after the first two jobs, in maps",
            unit="maps",
            ours=lambda: float(latest().maps),
            wanted=f"{MOST_MAPS:,} maps",
            note="however long the sweep; of the row above's last round; no limit but what a "
            "worker keeps of the code of earlier jobs, and one that grows beyond is replaced",
        ),
        Case(
            name="growth of its largest process after the first two jobs, in memory",
            unit="MB",
            ours=lambda: latest().megabytes,
            wanted=f"{MOST_MEGABYTES:.0f} MB",
            note="however long the sweep; of the same round, and limited by the same",
        ),
    ]


def sweep(jobs: int = JOBS, restarts: int = RESTARTS) -> Sweep:
    """Run the sweep in a folder of its own.

    Args:
        jobs: How many, at least 2.
        restarts: Random starts of the exact optimum of each; 0 leaves it out.

    Raises:
        RuntimeError: If it does not end well.
    """
    with tempfile.TemporaryDirectory() as folder:
        features = f"model.n_features=range({FIRST},{FIRST + jobs})"
        command = [sys.executable, "-m", "experiments.run", "-m", *_SWEEP]
        command += [features, f"restarts={restarts}"]
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            env=os.environ | {VARIABLE: folder, "JAX_ENABLE_COMPILATION_CACHE": "false"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        watch = Watch(process.pid, Path(folder))
        try:
            status = process.wait()
        finally:
            watch.end()
            process.terminate()
        seconds = time.perf_counter() - began
        jobs_times = [times_of(run) for run in Path(folder).glob("toy_intro/*")]
    if status:
        raise RuntimeError(f"the sweep ended with exit status {status}")
    maps, megabytes = (most - first for most, first in zip(watch.most, watch.first, strict=True))
    compiling, drawing = (
        sum(each.get(name, 0.0) for each in jobs_times) / jobs for name in (COMPILING, DRAWING)
    )
    return Sweep(seconds / jobs, compiling, drawing, int(maps), megabytes)


def occupied(processes: set[int]) -> tuple[int, float]:
    """The most maps and megabytes of one of these processes now; 0 for ended ones."""
    most = (0, 0.0)
    for process in processes:
        place = Path("/proc") / str(process)
        try:
            maps = (place / "maps").read_bytes().count(b"\n")
            pages = int((place / "statm").read_text().split()[1])
        except OSError:
            continue
        most = (max(most[0], maps), max(most[1], pages * _PAGE / 2**20))
    return most
