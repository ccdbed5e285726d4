"""Run one experiment, or a sweep of it: ``python -m experiments.run experiment=toy_intro``."""

import os
import sys
import textwrap
import time
from collections.abc import Callable
from functools import partial, wraps
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from circuitax.commands.cli import WIDTH, guarded
from circuitax.config.catalogue import ExperimentEntry, checkout, discover, extra_conf
from circuitax.cores import one_device_a_core
from circuitax.records.table import CHAPTERS

if TYPE_CHECKING:  # --help does not wait for Hydra and JAX
    from omegaconf import DictConfig

    from circuitax.config.plan import PlannedRun

HELP = """\
usage: python -m experiments.run experiment=NAME [scale=tiny|quick|evening|paper] [seed=N]
                                 [dtype=float32|float64] [field=value ...] [-m] [--again]

experiments (expected time at quick scale on 2 cores):
{experiments}

scales:
  tiny     seconds, what the tests run
  quick    minutes, the default
  evening  up to some hours on 2 cores; as quick where an experiment names no sizes for it
  paper    the published sizes

examples:
  python -m experiments.run experiment={example} scale=tiny
  python -m experiments.run experiment={example} --cfg job              # every field, its value
  python -m experiments.run -m experiment={example} seed=0,1,2          # a sweep
  python -m experiments.run -m hydra/launcher=cores experiment={example} seed=0,1,2
  python -m experiments.run experiment=text_models task.path=FOLDER     # texts of your own
  python -m experiments.run experiment=bigram input.text_models=RUN     # reads that run
launchers: basic (one job after another), cores (a process for each job, one on each core),
slurm_cpu and slurm_gpu (a cluster)

A finished run is reused; --again (or again=yes) computes it again.
A run that was stopped (Ctrl-C, SIGTERM) resumes with the same command.
Results are in results/NAME/RUN/. Then: experiments.runs lists them, experiments.claims prints
each result with its word, experiments.collect merges a sweep, experiments.render draws figures
again, experiments.generate lets a trained model continue a text, experiments.reproduce runs
everything, experiments.accept keeps runs in git.
"""
FAILED, BUSY = 1, 3  # exit statuses of a run, beside 0 and those of signals
_COMMAND = "experiments.run"


def main(arguments: list[str] | None = None) -> int:
    """Check the whole command line, compute it, and report the outcome at the end.

    Exit status: 0 done, 1 a job failed, 2 refused before anything was computed, 3 another process
    computes it, 130 or 143 stopped by a signal.
    """
    typed = sys.argv[1:] if arguments is None else arguments
    entries = discover()
    if not typed or {"-h", "--help"} & set(typed):
        named = [text.partition("=")[2] for text in typed if text.startswith("experiment=")]
        entry = entries.get(named[0]) if named else None
        print(help_text(entries) if entry is None else help_of(entry), end="")
        return 0 if typed else 2
    return guarded(lambda: _run(typed, entries))


def help_text(entries: dict[str, ExperimentEntry]) -> str:
    """The text of ``--help``, made without importing any experiment."""
    width = max((len(name) for name in entries), default=0)
    titles = {chapter.name: chapter.title for chapter in CHAPTERS}
    rows = []
    for chapter, group in groupby(entries.items(), lambda item: item[1].chapter):
        rows.append(f"\n {titles.get(chapter, titles[''])}")
        for name, entry in group:
            known = entry.seconds("quick")
            seconds = "" if known is None else f"{known:.0f} s"
            rows.append(f"  {name:{width}} {seconds:>6}  {entry.table.message}")
    example = next(iter(entries), "NAME")
    return HELP.format(experiments="\n".join(rows).strip("\n") or "  (none)", example=example)


def help_of(entry: ExperimentEntry) -> str:
    """The text of ``experiment=NAME --help``: every field with its meaning, range and default."""
    from circuitax.config.spec import explained

    seconds = {scale: entry.seconds(scale) for scale in ("quick", "evening", "paper")}
    times = ", ".join(f"{scale} {n:.0f} s" for scale, n in seconds.items() if n is not None)
    lines = [f"{entry.title} ({entry.name}): {entry.table.message}", f"on 2 cores: {times}", ""]
    lines += ["fields, as field=value; defaults are those of the code, and its YAML has its own:"]
    for path, text in explained(entry.load().Spec):
        lines.append(textwrap.fill(f"{path}: {text}", WIDTH, subsequent_indent="      "))
    for name in entry.requires:
        text = (
            f"input.{name}: finished run of it that is read, by its folder or name (text; default"
        )
        lines.append(f"{text} the one of these settings)")
    asks = f"python -m experiments.run experiment={entry.name} --cfg job"
    return "\n".join([*lines, "", f"their values at a scale: {asks} scale=tiny", ""])


def _run(typed: list[str], entries: dict[str, ExperimentEntry]) -> int:
    from circuitax.config.plan import plan, split

    one_device_a_core()
    line = split(typed)
    watched = partial(tqdm, desc="checking", unit=" jobs", delay=3, leave=False, disable=None)
    checked, runs = plan(
        line.overrides,
        entries,
        multirun=line.multirun,
        watched=watched,
    )
    if line.questions:
        return _through_hydra([*line.questions, *checked], lambda config: None)
    return _sweep(checked, runs) if line.multirun else compute(runs[0])


def compute(planned: "PlannedRun", *, wait: bool = False) -> int:
    """Compute one planned run, and print its outcome; returns the exit status.

    Raises what nobody expects of a person, settings or machine, with its traceback.
    """
    from circuitax.cores import keep_compiled_code, multiply_in_float32
    from circuitax.data.corpus import TextError
    from circuitax.data.files import CacheError
    from circuitax.lab.execute import execute
    from circuitax.lab.loop import Diverged, StopFlag, Stopped
    from circuitax.lab.runs import Busy, DamagedRun
    from circuitax.lab.source import typed_command

    keep_compiled_code(checkout() / ".cache")
    multiply_in_float32()
    command = typed_command(_COMMAND, planned.overrides)
    try:
        with StopFlag() as stop:
            outcome = execute(planned, command=command, stop=stop, say=_say, wait=wait)
    except Stopped as stopped:
        _say("stopped; the same command resumes")
        return stopped.exit_status
    except Busy as error:
        _say(f"error: {error}")
        return BUSY
    except (TextError, Diverged, CacheError, DamagedRun) as error:
        _say(f"error: {error}")
        return FAILED
    how = f"done in {outcome.seconds:.1f} s"
    if outcome.reused:
        how = "is there already, made with the same settings, code, libraries and inputs"
    _say(f"{planned.entry.name} {planned.id} {how}: {_outcome_text(outcome.folder)}")
    if outcome.figure_error:
        _say(f"error: the data are kept, but claims or figures failed: {outcome.figure_error}")
        return FAILED
    return 0 if stop.number is None else Stopped(stop.number).exit_status


def job(config: "DictConfig", n_jobs: int) -> int:
    """One job of a sweep, as Hydra's launchers call it, here or on another machine."""
    from hydra.core.hydra_config import HydraConfig

    from circuitax.commands.launch import job_line
    from circuitax.config.plan import from_config
    from circuitax.lab.loop import Stopped

    one_device_a_core()
    overrides = list(HydraConfig.get().overrides.task)
    _say(job_line(HydraConfig.get().job.num, n_jobs, overrides))
    try:
        status = compute(from_config(config, overrides, discover()), wait=True)
    except Exception as error:  # the other jobs go on
        from circuitax.lab.runs import in_one_line

        _say(f"error: {' '.join(overrides)}: {in_one_line(error)}")
        return FAILED
    if status > 128:  # the signal meant the whole sweep
        raise Stopped(status - 128)
    return status


def _sweep(checked: list[str], runs: "list[PlannedRun]") -> int:
    from circuitax.config.plan import quoted
    from circuitax.lab.execute import fresh
    from circuitax.lab.loop import Stopped
    from circuitax.lab.runs import PROVENANCE, note_sweep, work_folder

    # Names sort by time.
    stamp = f"{time.strftime('%Y-%m-%d_%H-%M-%S', time.gmtime())}_{os.getpid()}"
    for experiment in sorted({planned.entry.name for planned in runs}):
        jobs = [
            {"run": planned.id, "overrides": list(planned.overrides)}
            for planned in runs
            if planned.entry.name == experiment
        ]
        note_sweep(experiment, stamp, jobs)
    _say(f"{len(runs)} jobs, every one checked")
    # On a cluster, jobs unpickle the specs of experiments of another folder.
    places = [os.environ.get("PYTHONPATH", ""), *(str(x.parent) for x in extra_conf(discover()))]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    began = time.time()
    folder = work_folder() / "sweeps" / stamp
    place = [] if any(x.startswith("hydra.sweep.dir=") for x in checked) else [str(folder)]
    n_jobs = len(runs)

    @wraps(job)  # Hydra reads its module, a cluster pickles it
    def numbered(config: "DictConfig") -> int:
        return job(config, n_jobs)

    try:
        status = _through_hydra(
            ["-m", *checked, *(quoted("hydra.sweep.dir", x) for x in place)], numbered
        )
    except Stopped as stopped:
        _say("stopped; the same command resumes")
        return stopped.exit_status
    left = []
    for planned in runs:
        asked = planned.settings.again
        there = fresh(_without_again(planned))
        if there is None or (asked and (there / PROVENANCE).stat().st_mtime < began):
            left.append(planned)
    _say(f"{len(runs) - len(left)} of {len(runs)} jobs done")
    for planned in left:
        _say(f"  not done: {' '.join(planned.overrides)}")
    return FAILED if left else status


def _without_again(planned: "PlannedRun") -> "PlannedRun":
    from dataclasses import replace

    return replace(planned, settings=replace(planned.settings, again=False))


def _through_hydra(arguments: list[str], task: "Callable[[DictConfig], object]") -> int:
    """Run Hydra's own main on these arguments; returns its exit status."""
    import hydra

    before = sys.argv
    sys.argv = [_COMMAND, *arguments]  # which Hydra reads
    conf = str(checkout() / "conf")
    try:
        hydra.main(version_base="1.3", config_path=conf, config_name="config")(task)()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.argv = before
    return 0


def _outcome_text(folder: Path) -> str:
    """Folder of a run, and the words of its rows where they could be settled."""
    from circuitax.lab.runs import settled_rows, shown
    from circuitax.records.ledger import counts_text, row_lines

    try:
        found = settled_rows(folder)
    except ValueError:
        return shown(folder)
    if not found:
        return shown(folder)
    first = "; ".join(filter(None, [shown(folder), counts_text(found)]))
    return "\n  ".join([first, *row_lines(found)])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
