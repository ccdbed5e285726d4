"""One run from its cell to its folder: upstream runs, reuse, lock, lab, record, figures."""

import logging
import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import jax

from circuitax.config.catalogue import checkout
from circuitax.config.cells import Cell
from circuitax.config.identity import canonical
from circuitax.kernel.keys import derive
from circuitax.lab.drawing import draw_figures, up_to_date
from circuitax.lab.lab import ARRAYS, Lab
from circuitax.lab.lock import Busy, lock
from circuitax.lab.runs import CLAIMS, PROVENANCE, provenance, run_folder, work_folder
from circuitax.lab.source import source_hash
from circuitax.lab.stop import StopFlag
from circuitax.records.claims import settle, verdict_to_json
from circuitax.records.provenance import describe
from circuitax.records.record import Record
from circuitax.records.store import publish, write_json, write_text

LOG = logging.getLogger("circuitax")
# Between two looks at the lock of an upstream run.
WAIT_SECONDS = 0.5


class Outcome(NamedTuple):
    """A finished run.

    Attributes:
        folder: Where it is.
        reused: Whether it was there before.
        seconds: Time that this session spent on it.
        figure_error: Why its figures could not be drawn; the data are whole. Empty if they were.
    """

    folder: Path
    reused: bool
    seconds: float
    figure_error: str


def conduct(
    cell: Cell,
    *,
    command: str,
    stop: StopFlag,
    say: Callable[[str], None] = LOG.info,
    wait: bool = False,
) -> Outcome:
    """Compute a run, or resume it, or reuse it when it is finished and its source is the same.

    Args:
        cell: What to compute.
        command: What was typed, for the provenance.
        stop: Flag that a signal sets.
        say: Told what is being done, a line each.
        wait: Wait for another process that computes the same run, as is done for upstream runs.

    Raises:
        Busy: If another process computes the same run, unless told to wait.
        Stopped: When a signal asked for it; the same command resumes.
        ValueError: If the experiment's record does not settle its claims.
    """
    inputs = {
        item.entry.name: conduct(item, command=command, stop=stop, say=say, wait=True).folder
        for item in cell.inputs
    }
    target = run_folder(cell.entry.name, cell.id)
    source = source_of(cell)
    if _finished(target, source):
        return Outcome(target, True, 0.0, _draw(target, cell))
    work = work_folder() / cell.id
    with ExitStack() as held:
        while True:
            try:
                name = f"run {cell.entry.name}/{cell.id}"
                held.enter_context(lock(work.with_suffix(".lock"), name))
                break
            except Busy:
                if not wait:
                    raise
                stop.raise_if_set()
                time.sleep(WAIT_SECONDS)
        if _finished(target, source):  # by the process that held the lock before
            return Outcome(target, True, 0.0, _draw(target, cell))
        if not _same_text(work / "source", source):
            shutil.rmtree(work, ignore_errors=True)
        say(_announcement(cell, resumes=work.exists()))
        write_text(work / "source", source)
        with _log_to(work / "log.txt"), _clock(work / "seconds") as seconds:
            record = _compute(cell, Lab(work, stop=stop, inputs=inputs))
        whole = work / "whole"
        shutil.rmtree(whole, ignore_errors=True)
        _write(whole, cell, record, inputs, command=command, source=source, seconds=seconds())
        error = _draw(whole, cell)
        publish(whole, target)
        shutil.rmtree(work, ignore_errors=True)
    return Outcome(target, False, seconds(), error)


def source_of(cell: Cell) -> str:
    """Hash of all source that a run and its upstream runs depend on."""
    starts, waiting = [], [cell]
    while waiting:
        item = waiting.pop()
        starts.append(item.entry.path)
        waiting.extend(item.inputs)
    extra = [checkout() / "constraints.txt"]
    return source_hash(starts, extra, ("circuitax", "experiments"))


def _finished(target: Path, source: str) -> bool:
    return (target / PROVENANCE).is_file() and provenance(target)["source"] == source


def _compute(cell: Cell, lab: Lab) -> Record:
    module = cell.entry.load()
    with jax.enable_x64(cell.root.dtype.name == "float64"):
        key = derive(jax.random.key(cell.root.seed), cell.entry.name)
        record = module.run(cell.spec, key, lab)
    if not isinstance(record, Record):
        raise ValueError(f"run() of {cell.entry.name!r} returned {type(record)}, not a Record")
    return record


def _write(
    folder: Path,
    cell: Cell,
    record: Record,
    inputs: dict[str, Path],
    *,
    command: str,
    source: str,
    seconds: float,
) -> None:
    claims = getattr(cell.entry.load(), "CLAIMS", ())
    verdicts = settle(claims, record.measured, record.unmet)
    record.save(folder)
    write_json(folder / CLAIMS, [verdict_to_json(verdict) for verdict in verdicts])
    write_text(folder / "config.yaml", cell.config)
    write_json(folder / "spec.json", canonical(cell.spec))
    write_text(folder / "overrides.yaml", "".join(f"- {text}\n" for text in cell.overrides))
    work = folder.parent
    for name in ("log.txt", "metrics.jsonl"):
        if (work / name).exists():
            shutil.copy2(work / name, folder / name)
    if (work / ARRAYS).exists():
        shutil.copytree(work / ARRAYS, folder / ARRAYS)
    facts = describe(
        checkout(),
        command=command,
        experiment=cell.entry.name,
        run=cell.id,
        scale=cell.root.scale.name,
        seed=cell.root.seed,
        dtype=cell.root.dtype.name,
        device=device_name(),
        seconds=seconds,
        source=source,
        inputs={name: path.name for name, path in inputs.items()},
    )
    write_json(folder / PROVENANCE, facts)


def device_name() -> str:
    """Kind and number of the devices computed on, without the machine's name."""
    devices = jax.devices()
    kind = devices[0].device_kind
    cores = f", {len(os.sched_getaffinity(0))} cores" if devices[0].platform == "cpu" else ""
    return f"{len(devices)} x {kind}{cores}"


def _draw(folder: Path, cell: Cell) -> str:
    # A figure must not lose the data, whatever it raises.
    try:
        if not up_to_date(folder, cell.entry):
            draw_figures(folder, cell.entry)
    except Exception as error:
        write_text(folder / "figures_failed.txt", traceback.format_exc())
        return f"{type(error).__name__}: {error}"
    (folder / "figures_failed.txt").unlink(missing_ok=True)
    return ""


def _announcement(cell: Cell, *, resumes: bool) -> str:
    name, scale = cell.entry.name, cell.root.scale.name
    expected = {"quick": cell.entry.budget_seconds, "paper": cell.entry.paper_seconds}.get(scale)
    parts = [f"{name} {cell.id} at {scale} scale" + (", resumed" if resumes else "")]
    if expected is not None and expected != float("inf"):
        parts.append(f"about {_duration(expected)} expected on 2 cores")
    elif scale == "paper":
        parts.append("no time known for this scale (PAPER_SECONDS is not stated)")
    return ": ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.0f} days"


def _same_text(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


@contextmanager
def _log_to(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    level = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)
        handler.close()


@contextmanager
def _clock(path: Path) -> Iterator[Callable[[], float]]:
    """Seconds over all sessions of a run, kept in a file also when the session is stopped."""
    before = float(path.read_text()) if path.is_file() else 0.0
    began = time.monotonic()
    total = [before]

    def seconds() -> float:
        return total[0]

    try:
        yield seconds
    finally:
        total[0] = before + time.monotonic() - began
        write_text(path, f"{total[0]:.3f}")
