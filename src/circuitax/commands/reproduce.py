"""Run every experiment, those that settle most first: ``python -m experiments.reproduce``."""

import json
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from circuitax.commands.options import YES_NO, Command, Option, n_jobs, refuse, wanted
from circuitax.commands.status import BUSY, DONE, REUSED
from circuitax.commands.suite import Result, Suite
from circuitax.commands.suite_view import suite_view
from circuitax.commands.workers import Pool
from circuitax.config.catalogue import ExperimentEntry, discover, upstream_order
from circuitax.config.planned_runs import plan
from circuitax.config.scale import SCALES
from circuitax.config.schema import ConfigError, forget
from circuitax.lab.abandoned import WORK_DAYS, remove_abandoned
from circuitax.lab.here import held_against, in_words
from circuitax.lab.pages import PAGES, pages_key, write_pages
from circuitax.lab.places import require_results
from circuitax.lab.reuse import reusable
from circuitax.lab.runs import (
    ACCEPTED,
    DamagedRun,
    WholeRun,
    accepted_run,
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
from circuitax.records.agreement import counts_here
from circuitax.records.store import write_json, write_text

COMMAND = Command(
    "reproduce",
    """\
First writes the gallery, the claims page and the report in results/latest/ from the accepted runs,
without computing, and says which file to open. Then runs every experiment, first those with most
published statements for their expected time, reuses what is finished and resumes what was stopped,
and after each writes beside every claim what was measured here, and one word: agrees, differs,
other settings, not repeated. Runs of experiments that were reproduced before and are not named now
stay on the pages; damaged ones are named and left out. At the end it says how long each took, with
compiling, computing and drawing apart, how many claims have each word, and by how much those that
differ do.
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
# In results/latest/: the runs made here that its pages show, and what the pages were made from.
RUNS, MADE = "runs.json", "made.txt"


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Run the suite; exit status 1 when an experiment failed or a run is damaged, naming it."""
    try:
        entries = discover()
        jobs = n_jobs(options["jobs"])
        asked = wanted(options["only"], entries)
        names = most_first(asked, entries)
        require_results()
    except (ConfigError, ValueError) as error:
        return refuse(error)
    again = asked if options["again"] == "yes" else []
    return _suite(names, entries, options, again, jobs)


def most_first(names: list[str], entries: dict[str, ExperimentEntry]) -> list[str]:
    """By published statements for each expected second, then by seconds, after its requirements.

    What an experiment requires, and is not there before it, counts with it.
    """
    published = {
        name: sum(claim.origin == "published" for claim in entries[name].load_claims())
        for name in dict.fromkeys(item for name in names for item in upstream_order(name, entries))
    }
    ordered: list[str] = []

    def new(name: str) -> list[str]:
        return [item for item in upstream_order(name, entries) if item not in ordered]

    def order(name: str) -> tuple[float, float, str]:
        seconds = float(sum(entries[item].budget_seconds for item in new(name)))
        return -sum(published[item] for item in new(name)) / seconds, seconds, name

    while waiting := [name for name in names if name not in ordered]:
        ordered += new(min(waiting, key=order))
    return ordered


def _suite(
    names: list[str],
    entries: dict[str, ExperimentEntry],
    options: dict[str, str],
    again: list[str],
    jobs: int,
) -> int:
    scale = options["scale"]
    overrides = [f"scale={scale}", *([f"seed={options['seed']}"] if options["seed"] else [])]
    overrides += [f"reuse={options['reuse']}"] if options["reuse"] != "code" else []
    _say("writing the pages of what is accepted")
    pages = _Pages(entries, results_folder() / "latest", scale)
    _say(pages.write([]))
    view = suite_view(jobs > 1, {name: entries[name].seconds(scale) for name in names})
    with StopFlag() as stop, Pool(jobs, stop, view) as pool:
        look = partial(_finished, entries=entries, overrides=overrides)
        reused = [name for name in names if name not in again and options["reuse"] != "twin"]
        there = list(_there(reused, look, jobs, stop))
        results = list(there)
        left = [name for name in names if name not in {item.name for item in there}]
        _say(_announcement(left, len(there), entries, scale, jobs))
        pages.write(there)
        suite = Suite(left, entries, overrides, again, pool)
        started = 0
        while True:
            for name in suite.start():
                started += 1
                hint = _hint((name, *suite.waiting), entries, scale, jobs)
                view.coming(f"[{started}/{len(left)}] {name}{hint}")
            if not (ended := suite.finished()):
                break
            results += ended
            try:
                pages.write(ended)
            except OSError:  # a full disk: nothing is left to run on behind it
                pool.end_all()
                while suite.finished():
                    pass
                raise
            for item in ended:
                how = f"  {item.name} {_word(item)}, {item.seconds:.0f} s"
                view.ended(item.name, how + pages.words(item.name), _word(item) == "FAILED")
    view.close()
    if results:
        # Side by side, an experiment takes longer than it does alone.
        _report(results, entries, scale if jobs == 1 else "", pages.here)
    for line in pages.compared():
        _say(line)
    _say(pages.places)
    if stop.number is not None:
        _say(
            f"stopped after {len(results)} of {len(names)}: the pages show what is there, and "
            "the same command resumes"
        )
        return 128 + stop.number
    busy = [item.name for item in results if item.status == BUSY]
    failed = [item.name for item in results if item.status not in (*DONE, BUSY)]
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


def _there(
    names: list[str], look: Callable[[str], Result | None], jobs: int, stop: StopFlag
) -> Iterator[Result]:
    """What is found of the finished runs, without a process for each; a signal ends the search."""
    made = [name for name in names if finished_runs(name)]
    # A process takes seconds to start, about as long as three experiments to compose.
    side_by_side = jobs > 1 and len(made) > 3 * jobs
    spawn, quiet = multiprocessing.get_context("spawn"), (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(jobs, spawn, signal.signal, quiet) as pool:
        for item in (pool.map if side_by_side else map)(look, made):
            if stop.number is not None:
                pool.shutdown(cancel_futures=True)
                return
            if item is not None:
                yield item


def _finished(
    name: str, entries: dict[str, ExperimentEntry], overrides: list[str]
) -> Result | None:
    """The finished run of an experiment, if it is reused as it is."""
    began = time.monotonic()
    forget()
    with suppress(ValueError):  # the process of the experiment says it in its own words
        _, (planned,) = plan([f"experiment={name}", *overrides], entries)
        if (run := reusable(planned)) is not None:
            return Result(name, REUSED, time.monotonic() - began, run)
    return None


def _announcement(
    left: list[str], there: int, entries: dict[str, ExperimentEntry], scale: str, jobs: int
) -> str:
    """Announcement of the work, of its expected time, and of the way to stop it."""
    finished = f"{there} finished before; " if there else ""
    if not left:
        return f"{finished}nothing to compute"
    hint = _hint(left, entries, scale, jobs).replace(" left", "")
    many = f"{len(left)} experiment{'s' if len(left) > 1 else ''}"
    return f"{finished}computing {many}{hint}; Ctrl-C stops, and the same command resumes"


def _hint(names: Iterable[str], entries: dict[str, ExperimentEntry], scale: str, jobs: int) -> str:
    """Expected time of some experiments; empty at a scale that states none."""
    seconds = [entries[name].seconds(scale) for name in names]
    known = sum(item for item in seconds if item is not None) / jobs
    return f", about {known / 60:.0f} min left" if scale in ("quick", "evening") else ""


class _Pages:
    """The pages: accepted runs, and the numbers of this machine beside their claims.

    Args:
        entries: All experiments.
        latest: Folder of the pages.
        scale: Scale of the runs made here.

    Attributes:
        here: Runs made here, those of an earlier command included, by experiment.
        left_out: Experiments with a damaged run, and accepted runs that are damaged.
        places: Addresses of the gallery, the claims and the report, as they were written last.
    """

    def __init__(self, entries: dict[str, ExperimentEntry], latest: Path, scale: str) -> None:
        self.left_out: set[str] = set()
        self.here: dict[str, WholeRun] = {}
        self.places = ""
        self._entries, self._latest = entries, latest
        self._command = f"{TYPED} scale={scale} only="
        self._order = sorted(entries)
        self._asked: set[str] = set()
        self._accepted: dict[str, WholeRun] = {}
        for name in self._order:
            with suppress(ValueError):
                folder = accepted_run(name)
                self._add(self._accepted, name, folder)
        try:
            named = dict(json.loads((latest / RUNS).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return
        for name, run in named.items():
            folder = run_folder(name, str(run))
            if name in entries and folder in finished_runs(name):
                self._add(self.here, name, folder)

    def write(self, ended: Iterable[Result]) -> str:
        """Write the pages with the experiments that have ended; returns which to open."""
        for item in ended:
            if item.run is not None:
                self._add(self.here, item.name, item.run)
                self._asked.add(item.name)
        for runs in (self._accepted, self.here):
            # Minutes where libraries are of other versions than those that settled them.
            for name, run in tqdm(
                list(runs.items()), "settling claims", delay=3, leave=False, disable=None
            ):
                try:
                    settle_run(run, self._entries[name])
                except ValueError as error:  # damaged, or changed claims, since it was added
                    self._leave_out(runs, name, error)
        shown_runs = {**self.here, **self._accepted}
        ordered = {name: shown_runs[name] for name in self._order if name in shown_runs}
        found = held_against(self._accepted, self.here, self._command) if self.here else {}
        key = pages_key(ordered, self.here, found)
        made = self._latest / MADE
        pages = tuple(self._latest / name for name in PAGES)
        if not (made.is_file() and made.read_text(encoding="utf-8") == key) or not all(
            page.is_file() for page in pages
        ):
            made.unlink(missing_ok=True)
            write_pages(self._latest, ordered, self._entries, TYPED, self.here, found)
            write_json(self._latest / RUNS, {name: run.name for name, run in self.here.items()})
            write_text(made, key)
        gallery, claims, report = map(shown, pages)
        self.places = f"gallery: {gallery}\nclaims:  {claims}\nreport:  {report}"
        return (
            f"open {report}: the accepted runs of {len(self._accepted)} experiments; what is "
            "computed here is written beside them"
        )

    def words(self, name: str) -> str:
        """Counts of one experiment's claims by their outcome here, behind a colon."""
        if name not in self.here or name not in self._accepted:
            return ""
        found = held_against({name: self._accepted[name]}, {name: self.here[name]}, self._command)
        return f": {counts_here(found.values())}" if found else ""

    def compared(self) -> Iterator[str]:
        """Comparison of the runs of this command with the accepted ones, a line each."""
        kept = {name: run for name, run in self._accepted.items() if name in self._asked}
        mine = {name: run for name, run in self.here.items() if name in self._asked}
        yield from in_words(held_against(kept, mine, self._command), kept)
        if lacking := sorted(self._asked - set(self._accepted)):
            yield f"not compared, no accepted run: {', '.join(lacking)}"

    def _add(self, runs: dict[str, WholeRun], name: str, folder: Path) -> None:
        try:
            runs[name] = whole(folder)
            self.left_out.discard(self._called(runs, name))
        except DamagedRun as error:
            self._leave_out(runs, name, error)

    def _leave_out(self, runs: dict[str, WholeRun], name: str, error: ValueError) -> None:
        called = self._called(runs, name)
        _say(f"{called} is left out of the pages: {error}")
        runs.pop(name, None)
        self.left_out.add(called)

    def _called(self, runs: dict[str, WholeRun], name: str) -> str:
        return f"{name}/{ACCEPTED}" if runs is self._accepted else name


def _report(
    results: list[Result],
    entries: dict[str, ExperimentEntry],
    scale: str,
    runs: dict[str, WholeRun],
) -> None:
    width = max(len(item.name) for item in results)
    together: dict[str, float] = {}
    for item in results:
        budget = entries[item.name].seconds(scale) if scale in ("quick", "evening") else None
        slow = budget is not None and item.seconds > TOLERATED * budget
        note = f"over its budget of {budget:.0f} s" if slow else ""
        word = _word(item)
        parts = _parts(item, runs)
        for name, seconds in parts.items():
            together[name] = together.get(name, 0.0) + seconds
        said = "; ".join(filter(None, [_in_words(parts), note]))
        _say(f"  {item.name:{width}}  {word:7}  {item.seconds:7.1f} s  {said}".rstrip())
    if len(results) > 1 and together:
        whole = sum(item.seconds for item in results)
        _say(f"  {'together':{width}}  {'':7}  {whole:7.1f} s  {_in_words(together)}")


def _word(item: Result) -> str:
    """Outcome of an experiment: done, busy, stopped or FAILED."""
    if item.status in DONE:
        return "done"
    return item.status if item.status in (BUSY, "stopped") else "FAILED"


def _parts(item: Result, runs: dict[str, WholeRun]) -> dict[str, float]:
    """Time profile of a run computed now; its process took more, to start and to import."""
    if item.name not in runs or item.status != "done":
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
