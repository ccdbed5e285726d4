"""One job of a command line, in whatever process the launcher puts it: ``experiments.run``."""

import os
import sys
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from circuitax.config.catalogue import checkout, discover
from circuitax.config.cells import Cell, from_config
from circuitax.data.corpus import TextError
from circuitax.lab.busy import Busy
from circuitax.lab.compilation import keep_compiled_code
from circuitax.lab.conduct import Outcome, conduct
from circuitax.lab.loop import Diverged
from circuitax.lab.pages import verdict_counts
from circuitax.lab.runs import shown, verdicts
from circuitax.lab.stop import StopFlag, Stopped
from circuitax.records.provenance import typed_command
from circuitax.records.store import write_json, write_text

STATUS = "status.json"
# Beside the jobs of a sweep: the number of the signal that stopped it.
STOPPED = "stopped"
# Number of the process that reads the command line; workers of a launcher have others.
LAUNCHER = "CIRCUITAX_LAUNCHER"


def compute(config: DictConfig) -> None:
    """Compute the run that Hydra composed, and leave word of it in the job's own folder.

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
    try:
        cell = from_config(config, overrides, discover())
        keep_compiled_code(checkout() / ".cache")
        command = typed_command("experiments.run", overrides)
        with StopFlag() as stop:
            outcome = conduct(cell, command=command, stop=stop, say=_say)
        _say(_summary(cell, outcome))
    except (
        Busy,
        TextError,
        Diverged,
    ) as error:  # one line, where an exception would print its traceback
        _say(f"error: {error}")
        _leave(status, overrides, "failed", str(error))
        return
    except Stopped as stopped:
        _leave(status, overrides, "stopped", "by a signal")
        if os.environ.get(LAUNCHER) == str(os.getpid()):
            raise
        # In a worker process an exception would make the launcher kill its other workers, which
        # are saving too; the one that launched reads the marker.
        write_text(marker, str(stopped.number))
        return
    except Exception as error:
        _leave(status, overrides, "failed", f"{type(error).__name__}: {error}")
        raise
    if outcome.figure_error:
        reason = f"the data are kept, but figures failed: {outcome.figure_error}"
        _say(f"error: {reason}")
        _leave(status, overrides, "failed", reason, outcome.folder.name)
        return
    how = "reused" if outcome.reused else "done"
    _leave(status, overrides, how, "", outcome.folder.name)


def _leave(
    path: Path, overrides: list[str], status: str, reason: str, run: str | None = None
) -> None:
    left = {"overrides": overrides, "status": status, "reason": reason, "run": run}
    write_json(path, left)


def _summary(cell: Cell, outcome: Outcome) -> str:
    how = "is there already" if outcome.reused else f"done in {outcome.seconds:.1f} s"
    claims = verdict_counts(verdicts(outcome.folder))
    parts = [f"{cell.entry.name} {cell.id} {how}: {shown(outcome.folder)}"]
    return "; ".join([*parts, *([f"claims: {claims}"] if claims else [])])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
