"""Run every experiment, cheap ones first: ``python -m experiments.reproduce [only=a,b]``."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from circuitax.commands.options import YES_NO, Command, Option, n_jobs, refuse, wanted
from circuitax.commands.status import BUSY
from circuitax.commands.suite import Result, Suite
from circuitax.config.catalogue import Entry, discover, upstream_order
from circuitax.config.scale import SCALES
from circuitax.config.schema import ConfigError
from circuitax.lab.abandoned import WORK_DAYS, remove_abandoned
from circuitax.lab.against_accepted import against_accepted
from circuitax.lab.pages import write_pages
from circuitax.lab.places import require_results
from circuitax.lab.runs import (
    DamagedRun,
    WholeRun,
    finished_runs,
    provenance,
    results_folder,
    run_folder,
    shown,
    whole,
    work_folder,
)
from circuitax.lab.settle import settle_run
from circuitax.lab.stop import StopFlag
from circuitax.lab.times import COMPILING, DRAWING, times_of
from circuitax.records.store import write_json

COMMAND = Command(
    "reproduce",
    """\
Runs every experiment in increasing expected time, reuses what is finished and resumes what was
stopped. The gallery, the claims page and the report in results/latest/ are written anew after each;
they keep the runs of experiments that were reproduced before and are not named now, and leave out
damaged ones, which are named. At the end it says how long each took, with compiling, computing and
drawing apart, and how the numbers differ from those of the accepted runs: equal as printed, within
noise, more.
""",
    options=(
        Option("only", "a,b", "experiments, and what they read; all of them by default"),
        Option("scale", "SCALE", "of all runs", "quick", SCALES),
        Option(
            "seed",
            "N",
            "of all runs; by default each has that of its own configuration: 0, or another where "
            "claims were worded after a look at seed 0",
        ),
        Option("again", "", "whether those named are computed although finished", "no", YES_NO),
        Option(
            "reuse",
            "",
            "twin keeps finished runs of older code where the small run of experiments.twins is "
            "the same bit by bit",
            "code",
            ("code", "twin"),
        ),
        Option(
            "jobs", "N", "experiments side by side; one that measures time is computed alone", "1"
        ),
    ),
)
TYPED = "python -m experiments.reproduce"
# A run that takes this many times its budget is a defect.
TOLERATED = 1.5
# In results/latest/: the runs that its pages show.
RUNS = "runs.json"


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Run the suite; exit status 1 when an experiment failed or a run is damaged, naming it."""
    try:
        entries = discover()
        jobs = n_jobs(options["jobs"])
        asked = wanted(options["only"], entries)
        names = cheap_first(asked, entries)
        require_results()
    except (ConfigError, ValueError) as error:
        return refuse(error)
    again = asked if options["again"] == "yes" else []
    return _suite(names, entries, options, again, jobs)


def cheap_first(names: list[str], entries: dict[str, Entry]) -> list[str]:
    """By expected seconds, each after its requirements."""
    ordered: list[str] = []
    for name in sorted(names, key=lambda name: (entries[name].budget_seconds, name)):
        for item in upstream_order(name, entries):
            if item not in ordered:
                ordered.append(item)
    return ordered


def _suite(
    names: list[str],
    entries: dict[str, Entry],
    options: dict[str, str],
    again: list[str],
    jobs: int,
) -> int:
    latest, scale = results_folder() / "latest", options["scale"]
    pages = _Shown(entries, latest)
    results: list[Result] = []
    overrides = [f"scale={scale}", *([f"seed={options['seed']}"] if options["seed"] else [])]
    overrides += [f"reuse={options['reuse']}"] if options["reuse"] != "code" else []
    with StopFlag() as stop:
        suite = Suite(names, entries, overrides, again, jobs, stop)
        started = 0
        while True:
            for name in suite.start():
                started += 1
                left = [entries[item].seconds(scale) for item in (name, *suite.waiting)]
                known = sum(seconds for seconds in left if seconds is not None) / jobs
                timed = scale in ("quick", "evening")
                hint = f", about {known / 60:.0f} min left" if timed else ""
                _say(f"[{started}/{len(names)}] {name}{hint}")
            if not (ended := suite.finished()):
                break
            results += ended
            runs = pages.with_results(ended)
            try:
                gallery, claims, report = write_pages(latest, runs, entries, TYPED)
                write_json(latest / RUNS, {name: run.name for name, run in runs.items()})
            except OSError:  # a full disk: nothing is left to run on behind it
                suite.end()
                raise
    # Side by side, an experiment takes longer than it does alone.
    _report(results, entries, scale if jobs == 1 else "", runs)
    done = {item.name for item in results if item.run is not None}
    if compared := against_accepted({name: run for name, run in runs.items() if name in done}):
        _say(compared)
    _say(f"gallery: {shown(gallery)}\nclaims:  {shown(claims)}\nreport:  {shown(report)}")
    if stop.number is not None:
        _say(
            f"stopped after {len(results)} of {len(names)}: the pages show what is there, and "
            "the same command resumes"
        )
        return 128 + stop.number
    busy = [item.name for item in results if item.left == BUSY]
    failed = [item.name for item in results if item.status != 0 and item.left != BUSY]
    if pages.left_out:
        _say(f"damaged, and left out of the pages: {', '.join(sorted(pages.left_out))}")
    if busy:
        _say(f"computed by another process, run this again to take the results: {', '.join(busy)}")
    if failed:
        _say(f"failed: {', '.join(failed)}")
    if not (
        bad := busy or failed or pages.left_out
    ):  # nothing of what was asked for is left to resume
        remove_abandoned(work_folder(), WORK_DAYS, _say)
    return 1 if bad else 0


class _Shown:
    """The runs on the pages: those of an earlier command, and those that end now.

    Args:
        entries: All experiments.
        latest: Folder of the pages.
    """

    def __init__(self, entries: dict[str, Entry], latest: Path) -> None:
        self.left_out: set[str] = set()
        self._entries = entries
        self._runs: dict[str, WholeRun] = {}
        try:
            named = dict(json.loads((latest / RUNS).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return
        for name, run in named.items():
            folder = run_folder(name, str(run))
            if name in entries and folder in finished_runs(name):
                self._add(name, folder)

    def with_results(self, ended: Iterable[Result]) -> dict[str, WholeRun]:
        """All experiments with results so far, cheap ones first."""
        for item in ended:
            if item.run is not None:
                self._add(item.name, item.run)
        for name, run in list(self._runs.items()):
            try:
                settle_run(run, self._entries[name])
            except ValueError as error:  # damaged, or changed claims, since it was added
                self._leave_out(name, error)
        order = cheap_first(sorted(self._entries), self._entries)
        return {name: self._runs[name] for name in order if name in self._runs}

    def _add(self, name: str, folder: Path) -> None:
        try:
            self._runs[name] = whole(folder)
            self.left_out.discard(name)
        except DamagedRun as error:
            self._leave_out(name, error)

    def _leave_out(self, name: str, error: ValueError) -> None:
        _say(f"{name} is left out of the pages: {error}")
        self._runs.pop(name, None)
        self.left_out.add(name)


def _report(
    results: list[Result], entries: dict[str, Entry], scale: str, runs: dict[str, WholeRun]
) -> None:
    width = max(len(item.name) for item in results)
    together: dict[str, float] = {}
    for item in results:
        budget = entries[item.name].seconds(scale) if scale in ("quick", "evening") else None
        slow = budget is not None and item.seconds > TOLERATED * budget
        note = f"over its budget of {budget:.0f} s" if slow else ""
        word = item.left if item.left in (BUSY, "stopped") else "FAILED"
        word = "done" if item.status == 0 else word
        parts = _parts(item, runs)
        for name, seconds in parts.items():
            together[name] = together.get(name, 0.0) + seconds
        said = "; ".join(filter(None, [_in_words(parts), note]))
        _say(f"  {item.name:{width}}  {word:7}  {item.seconds:7.1f} s  {said}".rstrip())
    if len(results) > 1 and together:
        whole = sum(item.seconds for item in results)
        _say(f"  {'together':{width}}  {'':7}  {whole:7.1f} s  {_in_words(together)}")


def _parts(item: Result, runs: dict[str, WholeRun]) -> dict[str, float]:
    """Time profile of a run computed now; its process took more, to start and to import."""
    if item.name not in runs or item.left != "done":
        return {}
    known = times_of(runs[item.name])
    if COMPILING not in known:
        return {}
    whole = float(provenance(runs[item.name])["seconds"])
    computing = max(0.0, whole - known[COMPILING])
    found = {COMPILING: known[COMPILING], "computing": computing}
    return found | ({DRAWING: known[DRAWING]} if DRAWING in known else {})


def _in_words(parts: dict[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts.items())


def _say(text: str) -> None:
    print(text, flush=True)
