"""One run from its plan to its folder: reuse, lock, work, `run` of the experiment, and saving."""

import json
import logging
import math
import platform
import re
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import jax
import xarray as xr

from circuitax.config.catalogue import ExperimentEntry, checkout
from circuitax.config.plan import GivenRun, PlannedRun
from circuitax.config.spec import canonical
from circuitax.cores import n_cores
from circuitax.kernel.keys import derive
from circuitax.lab.drawing import draw_figures, up_to_date
from circuitax.lab.lab import Lab
from circuitax.lab.loop import StopFlag
from circuitax.lab.runs import (
    ACCEPTED,
    ARRAYS,
    DERIVED,
    FIGURES_FAILED,
    NEUTRAL,
    OVERRIDES,
    PROVENANCE,
    SPEC,
    Busy,
    DamagedRun,
    WholeRun,
    differing,
    finished_runs,
    flat,
    held,
    in_one_line,
    provenance,
    results_folder,
    run_folder,
    spec_fields,
    typed,
    whole,
    work_folder,
)
from circuitax.lab.settle import settle_run
from circuitax.lab.source import (
    changed_modules,
    checkout_state,
    imported_modules,
    package_versions,
    source_of,
)
from circuitax.records.record import DATA, Record
from circuitax.records.store import contents, publish, write_json, write_manifest, write_text

LOG = logging.getLogger("circuitax")
WAIT_SECONDS = 0.5  # between two looks at the lock of a run
# What arrays of many experiments are, where their table does not say it.
COMMON = {
    "alive": "whether training did not diverge",
    "step": "step of training",
    "seed": "independent training",
    "member": "independent training",
    "uniform": "loss of a uniform guess [nats]",
    "n_ctx": "tokens of a text",
}
# Fields in whose number the work of a run is about proportional.
COUNTS = {"seeds", "steps", "n_steps"}
MADE_FROM = "made_from.json"  # of unfinished work: modules and data of upstream runs


class Outcome(NamedTuple):
    """A finished run: its folder, whether it was there before, seconds, and errors of its figures.

    The data are whole where the figures could not be drawn; the error is empty where they were.
    """

    folder: WholeRun
    reused: bool
    seconds: float
    figure_error: str


def execute(
    planned: PlannedRun | GivenRun,
    *,
    command: str,
    stop: StopFlag,
    say: Callable[[str], None] = LOG.info,
    wait: bool = False,
    derived: bool = True,
) -> Outcome:
    """Compute a run and those that it reads, or resume them, or reuse them.

    A finished run is reused when it is whole, and made from the same modules, libraries and data;
    only its claims and figures are made again where they are out of date. A run that is computed
    again stays as it was until the new one is whole. Raises `Busy` where another process computes
    it, unless told to wait, and `Stopped` when a signal asked for it.
    """
    if isinstance(planned, GivenRun):
        return Outcome(whole(planned.folder), True, 0.0, "")
    inputs = {
        item.entry.name: execute(
            item, command=command, stop=stop, say=say, wait=True, derived=derived
        ).folder
        for item in planned.inputs
    }
    there = _reused(planned, inputs, say)
    if there is None:
        with _lock(planned, stop, say, wait) as waited:
            # The process that held the lock before may have made it.
            there = _reused(planned, inputs, say) if waited else None
            if there is None:
                return _computed(planned, inputs, command, stop, say, derived)
    return Outcome(there, True, 0.0, _derive(there, planned.entry) if derived else "")


def fresh(planned: PlannedRun | GivenRun) -> WholeRun | None:
    """The finished run that `execute` would reuse as it is, figures included; None without one."""
    if isinstance(planned, GivenRun):
        return whole(planned.folder)
    folders = {item.entry.name: fresh(item) for item in planned.inputs}
    inputs = {name: folder for name, folder in folders.items() if folder is not None}
    folder = run_folder(planned.entry.name, planned.id)
    if len(inputs) < len(folders) or not folder.is_dir() or (folder / FIGURES_FAILED).exists():
        return None
    try:
        run = whole(folder)
    except DamagedRun:
        return None
    return run if not _reason(planned, run, inputs) and up_to_date(run, planned.entry) else None


def device_name() -> str:
    """Kind and number of the devices used, without the machine's name."""
    devices = jax.devices()
    cores = f", {n_cores()} cores" if devices[0].platform == "cpu" else ""
    return f"{len(devices)} x {devices[0].device_kind}{cores}"


def _reused(
    planned: PlannedRun, inputs: dict[str, WholeRun], say: Callable[[str], None]
) -> WholeRun | None:
    folder = run_folder(planned.entry.name, planned.id)
    if not folder.is_dir():
        return None
    try:
        run = whole(folder)
        reason = _reason(planned, run, inputs)
    except DamagedRun as damaged:
        reason = damaged.wrong
    if not reason:
        return run
    say(f"{planned.entry.name} {planned.id} is computed again: {reason}")
    return None


def _reason(planned: PlannedRun, run: WholeRun, inputs: dict[str, WholeRun]) -> str:
    """Reason against the reuse of a whole run; empty if it can be reused."""
    if planned.settings.again:
        return "again=true asks for it"
    facts = provenance(run)
    if "modules" not in facts:
        return "an earlier version made it, which noted no modules"
    if changed := changed_modules(facts["modules"]):
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        return f"{', '.join(changed[:3])}{more} changed"
    read = _data_of(inputs)
    other = [name for name, mark in read.items() if facts["input_data"].get(name) != mark]
    return f"the data of its input {other[0]} changed" if other else ""


def _data_of(inputs: dict[str, WholeRun]) -> dict[str, str]:
    return {name: contents(run, (DATA, ARRAYS)) for name, run in inputs.items()}


@contextmanager
def _lock(
    planned: PlannedRun, stop: StopFlag, say: Callable[[str], None], wait: bool
) -> Iterator[bool]:
    """Hold the lock of a run; tells whether another process had it before."""
    what, waited = f"run {planned.entry.name}/{planned.id}", False
    while True:
        try:
            with held((work_folder() / planned.id).with_suffix(".lock"), what):
                yield waited
                return
        except Busy as error:
            if not wait:
                raise
            if not waited:
                say(f"waiting: {error}")
            waited = True
            stop.raise_if_set()
            time.sleep(WAIT_SECONDS)


def _computed(
    planned: PlannedRun,
    inputs: dict[str, WholeRun],
    command: str,
    stop: StopFlag,
    say: Callable[[str], None],
    derived: bool,
) -> Outcome:
    target, work = run_folder(planned.entry.name, planned.id), work_folder() / planned.id
    entries, read = _all_entries(planned), _data_of(inputs)
    planned.entry.load()
    resumes = _resumable(work, read)
    if not resumes:
        shutil.rmtree(work, ignore_errors=True)
    say(_announcement(planned, resumes) + ("" if resumes else _unlike(planned)))
    seconds, began = _seconds(work), time.monotonic()

    def note() -> None:
        made_from = {"modules": imported_modules(entries), "input_data": read}
        write_json(work / MADE_FROM, made_from)
        write_text(work / "seconds", f"{seconds + time.monotonic() - began:.3f}")

    note()
    with _log_to(work / "log.txt"):
        try:
            record = run(planned, Lab(work, stop=stop, inputs=inputs))
        finally:
            note()
    made = work / "whole"
    seconds += time.monotonic() - began
    save(made, planned, record, inputs, command, seconds)
    figure_error = _derive(WholeRun(made), planned.entry) if derived else ""
    publish(made, target)
    shutil.rmtree(work, ignore_errors=True)
    return Outcome(WholeRun(target), False, seconds, figure_error)


def run(planned: PlannedRun, lab: Lab) -> Record:
    """The experiment itself: its ``run(spec, key, lab)``, with the root key of its own name."""
    with jax.enable_x64(planned.settings.dtype.name == "float64"):
        key = derive(jax.random.key(planned.settings.seed), planned.entry.name)
        made: Any = planned.entry.load().run(planned.spec, key, lab)
    if isinstance(made, xr.Dataset):
        return Record(made.drop_attrs(deep=False), dict(made.attrs))
    if not isinstance(made, Record):
        raise ValueError(f"run() of {planned.entry.name!r} returned {type(made)}, not a Dataset")
    return made


def labelled(data: xr.Dataset, names: Mapping[str, str]) -> xr.Dataset:
    """The data with ``long_name`` and ``units`` of each variable, from ``"loss [nats]"``.

    A variable that is named neither there nor in `COMMON` has its own name with spaces.
    """
    names, found = {**COMMON, **names}, data.copy(deep=False)
    for name, variable in found.variables.items():
        text = names.get(str(name), re.sub("[_-]", " ", str(name)))
        parts = re.split(r" \[([^]]+)\]$", text)  # with a unit: before, unit, nothing
        variable.attrs = dict(zip(("long_name", "units"), parts, strict=False))
    return found


def save(
    folder: Path,
    planned: PlannedRun,
    record: Record,
    inputs: dict[str, WholeRun],
    command: str,
    seconds: float,
) -> None:
    """Write a run with its provenance, without paths or a host name, and its checksums last."""
    work = folder.parent
    shutil.rmtree(folder, ignore_errors=True)
    Record(labelled(record.data, planned.entry.table.variables), record.notes).save(folder)
    write_text(folder / "config.yaml", planned.config)
    write_json(folder / SPEC, canonical(planned.spec))
    write_text(folder / OVERRIDES, "".join(f"- {text}\n" for text in planned.overrides))
    if (work / "log.txt").exists():
        shutil.copy2(work / "log.txt", folder)
    if (work / ARRAYS).exists():
        shutil.copytree(work / ARRAYS, folder / ARRAYS)
    made_from = json.loads((work / MADE_FROM).read_text(encoding="utf-8"))
    commit, dirty = checkout_state(checkout())
    facts = {
        "experiment": planned.entry.name,
        "run": planned.id,
        "scale": planned.settings.scale.name,
        "seed": planned.settings.seed,
        "dtype": planned.settings.dtype.name,
        "command": command,
        "commit": commit,
        "dirty": dirty,
        "source": source_of(made_from["modules"]),
        "inputs": {item.entry.name: item.id for item in planned.inputs},
        "input_data": made_from["input_data"],
        "outside": dict(planned.outside),
        "device": device_name(),
        "seconds": round(seconds, 2),
        "python": platform.python_version(),
        "versions": package_versions(),
        "modules": made_from["modules"],
    }
    write_json(folder / PROVENANCE, facts)
    write_manifest(folder, left_out=DERIVED)


def _derive(folder: WholeRun, entry: ExperimentEntry) -> str:
    """Settle the claims and draw the figures; errors of either leave the data intact."""
    try:
        settle_run(folder, entry)
        if not up_to_date(folder, entry):
            draw_figures(folder, entry)
    except Exception as error:
        with suppress(OSError):
            write_text(folder / FIGURES_FAILED, traceback.format_exc())
        return in_one_line(error)
    (folder / FIGURES_FAILED).unlink(missing_ok=True)
    return ""


def _all_entries(planned: PlannedRun | GivenRun) -> list[ExperimentEntry]:
    inputs = planned.inputs if isinstance(planned, PlannedRun) else ()
    return [planned.entry, *(entry for item in inputs for entry in _all_entries(item))]


def _resumable(work: Path, read: dict[str, str]) -> bool:
    """Whether unfinished work was begun by the same modules and from the same data."""
    try:
        kept = json.loads((work / MADE_FROM).read_text(encoding="utf-8"))
        return kept["input_data"] == read and not changed_modules(kept["modules"])
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _announcement(planned: PlannedRun, resumes: bool) -> str:
    name, scale = planned.entry.name, planned.settings.scale.name
    text = f"{name} {planned.id} at {scale} scale" + (", resumed" if resumes else "")
    if (expected := _expected(planned)) is None:
        return text
    minutes = f"{expected / 60:.0f} min" if expected >= 120 else f"{expected:.0f} s"
    return f"{text}: about {minutes} expected on 2 cores"


def _expected(planned: PlannedRun) -> float | None:
    """Seconds that the table states of its own settings; of others those of a run like it.

    Its newest run, or the accepted one, that differs in seeds and steps alone, by their number.
    """
    if {key.partition("=")[0] for key in planned.overrides} <= NEUTRAL:
        return planned.entry.seconds(planned.settings.scale.name)
    asked, name = flat(canonical(planned.spec)), planned.entry.name
    accepted = (place / name / ACCEPTED for place in (results_folder(), checkout() / "results"))
    for folder in (*reversed(finished_runs(name)), *accepted):
        with suppress(OSError, ValueError, KeyError):  # of a damaged run nothing is said here
            had = spec_fields(folder)
            counts = differing(asked, had)
            if {count.rpartition(".")[2] for count in counts} <= COUNTS:
                times = math.prod(asked[count] / had[count] for count in counts)
                return float(provenance(folder)["seconds"]) * times
    return None


def _unlike(planned: PlannedRun) -> str:
    """How it differs from the newest run for which the same was typed, where one is there."""
    for folder in reversed(finished_runs(planned.entry.name)):
        with suppress(OSError, ValueError):  # of a damaged run nothing is said here
            if folder.name != planned.id and typed(folder) == list(planned.overrides):
                fields = differing(flat(canonical(planned.spec)), spec_fields(folder))
                return f"; differs from {folder.name} in {', '.join(fields) or 'what it reads'}"
    return ""


def _seconds(work: Path) -> float:
    """Seconds of earlier sessions, as far as they noted them."""
    try:
        return float((work / "seconds").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0.0


@contextmanager
def _log_to(path: Path) -> Iterator[None]:
    """Context in which what the lab logs also goes to a file."""
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
