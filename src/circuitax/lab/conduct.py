"""One run from its plan to its folder: upstream runs, reuse, lock, lab, record, claims, figures.

This file is part of what the reuse of a run depends on: a change here computes every run again.
"""

import hashlib
import json
import logging
import shutil
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import jax
import xarray as xr

from circuitax.config.catalogue import checkout
from circuitax.config.identity import canonical
from circuitax.config.planned_runs import PlannedRun
from circuitax.cores import n_cores
from circuitax.kernel.keys import derive
from circuitax.lab.busy import Busy, held
from circuitax.lab.drawing import draw_figures, up_to_date
from circuitax.lab.lab import Lab
from circuitax.lab.metric_lines import METRICS
from circuitax.lab.places import in_one_line
from circuitax.lab.runs import (
    ARRAYS,
    DERIVED,
    FIGURES_FAILED,
    PROVENANCE,
    DamagedRun,
    WholeRun,
    make_newest,
    provenance,
    run_folder,
    whole,
    work_folder,
)
from circuitax.lab.session import UNDER_WAY, announcement, clock, log_to
from circuitax.lab.set_aside import set_aside_misfits
from circuitax.lab.settle import settle_run
from circuitax.lab.source import numbers_hash
from circuitax.lab.stop import StopFlag
from circuitax.records.manifest import contents, write_manifest
from circuitax.records.provenance import describe
from circuitax.records.record import DATA, Record
from circuitax.records.store import publish, recover, write_json, write_text

LOG = logging.getLogger("circuitax")
# Between two looks at the lock of an upstream run.
WAIT_SECONDS = 0.5
# What a session finds in the folder of its work.
WORK_FILES = ("log.txt", METRICS, "seconds", UNDER_WAY)
WORK_FOLDERS = ("loops", "stages", ARRAYS)


class Outcome(NamedTuple):
    """A finished run.

    Attributes:
        folder: Where it is.
        reused: Whether it was there before.
        seconds: Time that this session spent on it.
        figure_error: Why its figures could not be drawn; the data are whole. Empty if they were.
    """

    folder: WholeRun
    reused: bool
    seconds: float
    figure_error: str


class Depends(NamedTuple):
    """Determinants of a run's numbers beside its identity.

    Attributes:
        source: Hash of its source and of that of its upstream runs.
        input_data: Checksum of the data and arrays of each upstream run, by experiment.
    """

    source: str
    input_data: dict[str, str]


def conduct(
    planned: PlannedRun,
    *,
    command: str,
    stop: StopFlag,
    say: Callable[[str], None] = LOG.info,
    wait: bool = False,
    derived: bool = True,
    alike: frozenset[str] = frozenset(),
) -> Outcome:
    """Compute a run, or resume it, or reuse it.

    A finished run is reused when it is whole and was made from the same source, libraries and
    upstream data; then only its claims and figures are made again, where they are out of date. A
    run that is computed again stays as it was until the new one is whole.

    Args:
        planned: What to compute; ``again`` of its settings asks for it although it is finished.
        command: What was typed, for the provenance.
        stop: Flag that a signal sets.
        say: Told what is being done, a line each.
        wait: Wait for another process that computes the same run, as is done for upstream runs.
        derived: Whether claims are settled and figures drawn, for the run and what it reads.
        alike: Source hashes of other code that gives the same numbers, so that what it made is
            reused (`commands.twins.alike`).

    Raises:
        Busy: If another process computes the same run, unless told to wait.
        Stopped: When a signal asked for it; the same command resumes.
        ValueError: If the experiment's record does not settle its claims; the data are kept.
    """
    outcome, unsettled = _outcome(
        planned, command=command, stop=stop, say=say, wait=wait, derived=derived, alike=alike
    )
    if unsettled is not None:
        raise unsettled
    return outcome


def _outcome(
    planned: PlannedRun,
    *,
    command: str,
    stop: StopFlag,
    say: Callable[[str], None],
    wait: bool,
    derived: bool,
    alike: frozenset[str],
) -> tuple[Outcome, Exception | None]:
    """A run, and the errors raised by its claims: its data are valid without them."""
    inputs: dict[str, WholeRun] = {}
    for item in planned.inputs:
        upstream, _ = _outcome(
            item, command=command, stop=stop, say=say, wait=True, derived=derived, alike=alike
        )
        inputs[item.entry.name] = upstream.folder
    target = run_folder(planned.entry.name, planned.id)
    depends = Depends(source_of(planned), {name: _read_of(run) for name, run in inputs.items()})
    if not planned.settings.again and (there := _finished(target, depends, alike, say)):
        return _derive(Outcome(there, True, 0.0, ""), planned, derived)
    work = work_folder() / planned.id
    said = False
    with ExitStack() as stack:
        while True:
            try:
                name = f"run {planned.entry.name}/{planned.id}"
                stack.enter_context(held(work.with_suffix(".lock"), name))
                break
            except Busy as error:
                if not wait:
                    raise
                if not said:
                    say(f"waiting: {error}")
                    said = True
                stop.raise_if_set()
                time.sleep(WAIT_SECONDS)
        recover(target)
        # By the process that held the lock before.
        if not planned.settings.again and (there := _finished(target, depends, alike, say)):
            return _derive(Outcome(there, True, 0.0, ""), planned, derived)
        stated = json.dumps(depends._asdict(), sort_keys=True)
        # Found by its name alone, so that no damaged byte in it loses the work.
        made_from = work / f"depends-{hashlib.sha256(stated.encode()).hexdigest()[:16]}.json"
        if resumes := made_from.exists():
            set_aside_misfits(work, WORK_FILES, WORK_FOLDERS, say)
        elif work.is_dir():
            shutil.rmtree(work, ignore_errors=True)
        else:
            work.unlink(missing_ok=True)
        say(announcement(planned, resumes=resumes))
        write_text(made_from, stated)
        with log_to(LOG, work / "log.txt"), clock(work / "seconds", say) as seconds:
            record = _compute(planned, Lab(work, stop=stop, inputs=inputs))
        made = work / "whole"
        shutil.rmtree(made, ignore_errors=True)
        _write(made, planned, record, inputs, command=command, depends=depends, seconds=seconds())
        write_manifest(made, left_out=DERIVED)
        outcome, unsettled = _derive(Outcome(whole(made), False, seconds(), ""), planned, derived)
        publish(made, target)
        make_newest(target)
        shutil.rmtree(work, ignore_errors=True)
    return outcome._replace(folder=WholeRun(target)), unsettled


def source_of(planned: PlannedRun) -> str:
    """Hash of all source that determines the numbers of a run and of its upstream runs."""
    starts, waiting = [], [planned]
    while waiting:
        item = waiting.pop()
        starts.append(item.entry.path)
        waiting.extend(item.inputs)
    return numbers_hash(starts)


def _read_of(run: WholeRun) -> str:
    return contents(run, (DATA, ARRAYS))


def _finished(
    target: Path, depends: Depends, alike: frozenset[str], say: Callable[[str], None]
) -> WholeRun | None:
    """The existing run, if it is whole and made from current source and inputs."""
    if not target.is_dir():
        return None
    try:
        run = whole(target)
    except DamagedRun as damaged:
        say(f"{target.parent.name}/{target.name} is computed again: {damaged.wrong}")
        return None
    facts = provenance(run)
    same_code = facts["source"] in {depends.source, *alike}
    return run if same_code and facts["input_data"] == depends.input_data else None


def _derive(
    outcome: Outcome, planned: PlannedRun, derived: bool
) -> tuple[Outcome, Exception | None]:
    """Settle the claims and draw the figures; errors in either leave the data intact."""
    if not derived:
        return outcome, None
    unsettled: Exception | None = None
    try:
        settle_run(outcome.folder, planned.entry)
    except Exception as error:
        unsettled = error
    return outcome._replace(figure_error=_draw(outcome.folder, planned)), unsettled


def _compute(planned: PlannedRun, lab: Lab) -> Record:
    module = planned.entry.load()
    with jax.enable_x64(planned.settings.dtype.name == "float64"):
        key = derive(jax.random.key(planned.settings.seed), planned.entry.name)
        data = module.run(planned.spec, key, lab)
    if not isinstance(data, xr.Dataset):
        raise ValueError(f"run() of {planned.entry.name!r} returned {type(data)}, not a Dataset")
    return Record(data.drop_attrs(deep=False), dict(data.attrs))


def _write(
    folder: Path,
    planned: PlannedRun,
    record: Record,
    inputs: dict[str, WholeRun],
    *,
    command: str,
    depends: Depends,
    seconds: float,
) -> None:
    record.save(folder)
    write_text(folder / "config.yaml", planned.config)
    write_json(folder / "spec.json", canonical(planned.spec))
    write_text(folder / "overrides.yaml", "".join(f"- {text}\n" for text in planned.overrides))
    work = folder.parent
    for name in ("log.txt", METRICS):
        if (work / name).exists():
            shutil.copy2(work / name, folder / name)
    if (work / ARRAYS).exists():
        shutil.copytree(work / ARRAYS, folder / ARRAYS)
    facts = describe(
        checkout(),
        command=command,
        experiment=planned.entry.name,
        run=planned.id,
        scale=planned.settings.scale.name,
        seed=planned.settings.seed,
        dtype=planned.settings.dtype.name,
        device=device_name(),
        seconds=seconds,
        source=depends.source,
        inputs={name: path.name for name, path in inputs.items()},
        input_data=depends.input_data,
        outside=dict(planned.outside),
    )
    write_json(folder / PROVENANCE, facts)


def device_name() -> str:
    """Kind and number of the devices used, without the machine's name."""
    devices = jax.devices()
    kind = devices[0].device_kind
    cores = f", {n_cores()} cores" if devices[0].platform == "cpu" else ""
    return f"{len(devices)} x {kind}{cores}"


def _draw(folder: WholeRun, planned: PlannedRun) -> str:
    # A figure must not lose the data, whatever it raises.
    try:
        if not up_to_date(folder, planned.entry):
            draw_figures(folder, planned.entry)
    except Exception as error:
        with suppress(OSError):  # of a full disk
            write_text(folder / FIGURES_FAILED, traceback.format_exc())
        return in_one_line(error)
    (folder / FIGURES_FAILED).unlink(missing_ok=True)
    return ""
