"""Run one experiment, or a sweep of it: ``python -m experiments.run experiment=toy_intro``."""

import sys
from functools import partial
from itertools import groupby

from tqdm import tqdm

from circuitax.commands.options import disk_in_one_line
from circuitax.config.catalogue import ExperimentEntry, discover
from circuitax.records.chapters import CHAPTERS

HELP = """\
usage: python -m experiments.run experiment=NAME [scale=tiny|quick|evening|paper] [seed=0]
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
launchers: local (one job after another), cores (all cores), slurm_cpu and slurm_gpu (a cluster)

A finished run is reused; --again (or again=yes) computes it again.
A run that was stopped (Ctrl-C, SIGTERM) resumes with the same command.
Results are in results/NAME/RUN/. Then: experiments.claims prints the claims with their verdicts,
experiments.collect merges a sweep, experiments.render draws figures again, experiments.generate
lets a trained model continue a text, experiments.reproduce runs everything, experiments.accept
keeps runs in git.
"""
# Hydra answers these itself.
_QUESTIONS = {
    "--cfg",
    "-c",
    "--info",
    "-i",
    "--hydra-help",
    "--version",
    "--shell-completion",
    "-sc",
}


@disk_in_one_line
def main(arguments: list[str] | None = None) -> int:
    """Check the whole command line, hand it to Hydra, and report the outcome at the end.

    Returns:
        Exit status: 0 done, 1 a job failed, 2 refused before anything was computed, 130 or 143
        stopped by a signal.
    """
    typed = sys.argv[1:] if arguments is None else arguments
    entries = discover()
    if not typed or {"-h", "--help"} & set(typed):
        print(help_text(entries), end="")
        return 0 if typed else 2
    try:
        return _run(typed, entries)
    except ValueError as error:  # ConfigError is one
        print(f"error: {error}", file=sys.stderr)
        return 2


def help_text(entries: dict[str, ExperimentEntry]) -> str:
    """The text of ``--help``, made without importing any experiment."""
    width = max((len(name) for name in entries), default=0)
    titles = {chapter.name: chapter.title for chapter in CHAPTERS}
    rows = []
    for chapter, group in groupby(entries.items(), lambda item: item[1].chapter):
        rows.append(f"\n {titles.get(chapter, titles[''])}")
        for name, entry in group:
            known = entry.budget_seconds < float("inf")
            seconds = f"{entry.budget_seconds:.0f} s" if known else ""
            rows.append(f"  {name:{width}} {seconds:>6}  {entry.message}")
    example = next(iter(entries), "NAME")
    return HELP.format(experiments="\n".join(rows).strip("\n") or "  (none)", example=example)


def _run(typed: list[str], entries: dict[str, ExperimentEntry]) -> int:
    # Hydra and the experiment's own imports take seconds: not for --help.
    from circuitax.commands.first_steps import resume_collection
    from circuitax.commands.job import compute, compute_planned
    from circuitax.commands.launch import (
        job_folder,
        note_sweeps,
        stopping_in_one_line,
        through_hydra,
    )
    from circuitax.commands.status import DONE, forget_statuses, statuses, stopped_by
    from circuitax.config.command_line import parse, quoted, split
    from circuitax.config.planned_runs import plan
    from circuitax.lab.abandoned import WORK_DAYS, remove_abandoned
    from circuitax.lab.places import own_folder, require_results
    from circuitax.lab.runs import work_folder
    from circuitax.lab.stop import Stopped

    line = split(typed)
    # A terminal shows how far it is, once it has taken some seconds.
    watched = partial(tqdm, desc="checking", unit=" jobs", delay=3, leave=False, disable=None)
    checked, runs = plan(
        line.overrides,
        entries,
        multirun=line.multirun,
        config_dir=line.config_dir,
        watched=watched,
    )
    if _QUESTIONS & set(line.flags):
        return through_hydra(compute, [*line.flags, *checked])
    require_results()
    where = "hydra.sweep.dir" if line.multirun else "hydra.run.dir"
    given = [item.value() for item in parse(checked) if item.get_key_element() == where]
    folder = own_folder(where, str(given[-1])) if given else job_folder(line.multirun)
    named = [] if given else [quoted(where, str(folder))]
    forget_statuses(folder)
    if line.multirun:
        note_sweeps(folder.name, runs)
        print(f"{len(runs)} jobs, every one checked", file=sys.stderr)
    resume_collection()
    status = 0
    try:
        with stopping_in_one_line():
            if line.multirun:
                status = through_hydra(compute, [*line.flags, *checked, *named])
            else:
                compute_planned(runs[0], folder)
        signal = stopped_by(folder) if line.multirun else None
        if signal is not None:
            raise Stopped(signal)
    except Stopped as stopped:
        print("stopped; the same command resumes", file=sys.stderr)
        return stopped.exit_status
    left = list(statuses(folder, [planned.overrides for planned in runs], line.multirun))
    bad = [item for item in left if item.status not in DONE]
    if line.multirun:
        print(f"{len(left) - len(bad)} of {len(left)} jobs done", file=sys.stderr)
        for item in bad:
            print(f"  {item.status}: {' '.join(item.overrides)}: {item.reason}", file=sys.stderr)
    # Only once all that was asked for is there: until then old work may be what this resumes. One
    # that was given its folder is a part of a larger command, which may have more to resume.
    if not (status or bad or given):
        remove_abandoned(work_folder(), WORK_DAYS, partial(print, file=sys.stderr))
    return status or (1 if bad else 0)
