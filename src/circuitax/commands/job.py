"""One job of a command line, in the process of its launcher: ``experiments.run``."""

import os
import sys
import traceback
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, run_job
from hydra.experimental.callback import Callback
from hydra.types import HydraContext
from hydra.utils import instantiate
from omegaconf import DictConfig, read_write

from circuitax.commands.status import BUSY, STATUS, STOPPED, leave
from circuitax.commands.twins import alike
from circuitax.config.catalogue import checkout, discover
from circuitax.config.planned_runs import PlannedRun, from_config, hydra_here
from circuitax.config.scale import Reuse
from circuitax.data.corpus import TextError
from circuitax.data.files import CacheError
from circuitax.lab.busy import Busy
from circuitax.lab.compilation import compile_seconds, keep_compiled_code, multiply_in_float32
from circuitax.lab.conduct import Outcome, conduct
from circuitax.lab.loop import Diverged
from circuitax.lab.places import about_the_place
from circuitax.lab.reuse import reasons
from circuitax.lab.runs import DamagedRun, shown, verdicts
from circuitax.lab.stop import StopFlag, Stopped
from circuitax.lab.times import COMPILING, keep_time
from circuitax.records.claim_texts import counts_text, verdict_lines
from circuitax.records.owner import this_process
from circuitax.records.provenance import typed_command
from circuitax.records.store import write_text

# The process that reads the command line; workers of a launcher are others.
LAUNCHER = "CIRCUITAX_LAUNCHER"


def compute_planned(
    planned: PlannedRun, folder: Path, *, stop: StopFlag | None = None, alone: bool = False
) -> None:
    """Compute the only run of a command line as a job of Hydra, from the configuration it has.

    Hydra sets the job's environment and its log, which has the traceback of what is raised; that
    is printed too where the job is the only one of its process.

    Args:
        planned: From ``plan``, not of a sweep.
        folder: The job's own folder.
        stop: As for `compute`.
        alone: Likewise.

    Raises:
        ValueError: If it was planned as one of a sweep.
        Stopped: When a signal asked for it.
    """
    if planned.composed is None:
        raise ValueError(f"planned={planned.id} must be alone: one of a sweep is not composed")
    with read_write(planned.composed):
        planned.composed.hydra.run.dir = str(folder)
    task = partial(compute, stop=stop, alone=alone, planned=planned)
    with hydra_here():
        context = HydraContext(
            GlobalHydra.instance().config_loader(),
            _Callbacks(planned.composed),  # type: ignore[arg-type]
        )
        ended = run_job(task, planned.composed, "hydra.run.dir", None, context)
    if alone or _launches():
        try:
            _ = ended.return_value
        except Exception:  # whatever the job raised, which Hydra hands on by raising it again
            traceback.print_exc()


class _Callbacks(Callback):
    """The callbacks of a configuration, as Hydra calls them around one job."""

    def __init__(self, config: DictConfig) -> None:
        self.callbacks = [instantiate(item) for item in config.hydra.callbacks.values()]

    def on_job_start(self, config: DictConfig, **given: Any) -> None:
        """Before the job."""
        for item in self.callbacks:
            item.on_job_start(config=config, **given)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **given: Any) -> None:
        """After it, the last first."""
        for item in reversed(self.callbacks):
            item.on_job_end(config=config, job_return=job_return, **given)


def _launches() -> bool:
    """Whether this process reads the command line itself, or has a job to itself."""
    return os.environ.get(LAUNCHER) == this_process()


def compute(
    config: DictConfig,
    stop: StopFlag | None = None,
    *,
    alone: bool = False,
    planned: PlannedRun | None = None,
) -> None:
    """Compute the run composed by Hydra, and write its status into the job's own folder.

    Args:
        config: The configuration of the job.
        stop: The flag of the process, where it outlives the job; without it the job has its own.
        alone: Whether a signal to this process concerns this job alone, as on a cluster. Else it
            stops the sweep that the job is part of, if there is one.
        planned: What the configuration describes, where it is known already.

    Raises:
        Stopped: When a signal asked for it.
    """
    hydra_config = HydraConfig.get()
    status = Path(hydra_config.runtime.output_dir) / STATUS
    overrides = list(hydra_config.overrides.task)
    marker = status.parent.parent / STOPPED
    if marker.exists():  # a job before this one was told to stop, and meant the sweep
        _leave(status, overrides, "stopped", "before it began")
        return
    launches = _launches()
    alone = alone or launches
    try:
        if planned is None:
            planned = from_config(config, overrides, discover())
        keep_compiled_code(checkout() / ".cache")
        multiply_in_float32()
        command = typed_command("experiments.run", overrides)
        same = alike(planned, _say) if planned.settings.reuse is Reuse.twin else frozenset()
        for line in reasons(planned, same):
            _say(line)
        with ExitStack() as stack:
            flag = stack.enter_context(StopFlag()) if stop is None else stop
            compiled = stack.enter_context(compile_seconds())
            outcome = conduct(
                planned, command=command, stop=flag, say=_say, wait=not launches, alike=same
            )
        if not outcome.reused:
            keep_time(outcome.folder, COMPILING, compiled())
        _say(_summary(planned, outcome))
    except Busy as error:
        _say(f"error: {error}")
        _leave(status, overrides, BUSY, str(error))
        return
    except (
        TextError,
        Diverged,
        CacheError,
        DamagedRun,
    ) as error:  # one line, where an exception would print its traceback
        _say(f"error: {error}")
        _leave(status, overrides, "failed", str(error))
        return
    except Stopped as stopped:
        _leave(status, overrides, "stopped", "by a signal")
        _obey(stopped, marker, alone=alone)
        return
    except OSError as error:
        reason = about_the_place(error)
        if reason:
            _say(f"error: {reason}")
        with suppress(OSError):  # of the same disk, which has been said
            leave(status, overrides, "failed", reason or f"{type(error).__name__}: {error}")
        if not reason:
            raise
        return
    except Exception as error:
        _leave(status, overrides, "failed", f"{type(error).__name__}: {error}")
        raise
    if outcome.figure_error:
        reason = f"the data are kept, but figures failed: {outcome.figure_error}"
        _say(f"error: {reason}")
        _leave(status, overrides, "failed", reason, outcome.folder.name)
    else:
        how = "reused" if outcome.reused else "done"
        _leave(status, overrides, how, "", outcome.folder.name)
    if flag.number is not None:  # the signal came after the last chunk
        _obey(Stopped(flag.number), marker, alone=alone)


def _leave(
    path: Path, overrides: list[str], status: str, reason: str, run: str | None = None
) -> None:
    """Write the status, or report in a line that the disk refuses it."""
    try:
        leave(path, overrides, status, reason, run)
    except OSError as error:
        place = about_the_place(error)
        if not place:
            raise
        _say(f"error: {place}")


def _obey(stopped: Stopped, marker: Path, *, alone: bool) -> None:
    if alone:
        raise stopped
    # In a worker process an exception would make the launcher end its other workers, which are
    # saving too; the one that launched reads the marker.
    write_text(marker, str(stopped.number))


def _summary(planned: PlannedRun, outcome: Outcome) -> str:
    code = "code, libraries" if planned.settings.reuse is Reuse.code else "numbers of its twin"
    same = f"is there already, made with the same settings, {code} and inputs"
    how = same if outcome.reused else f"done in {outcome.seconds:.1f} s"
    found = verdicts(outcome.folder)
    first = f"{planned.entry.name} {planned.id} {how}: {shown(outcome.folder)}"
    if not found:
        return first
    counts = counts_text([settled.verdict for settled in found])
    lines = [f"{first}; claims: {counts}", *verdict_lines(found)]
    return "\n  ".join(lines)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
