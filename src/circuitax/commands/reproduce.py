"""Run every experiment, those that settle most first: ``python -m experiments.reproduce``."""

import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from circuitax.commands.cli import YES_NO, Command, Option, UsageError, n_jobs, wanted
from circuitax.config.catalogue import IDLE_SECONDS, ExperimentEntry, discover, upstream_order
from circuitax.config.spec import SCALES
from circuitax.lab.pages import write_pages
from circuitax.lab.runs import (
    DamagedRun,
    WholeRun,
    accepted_run,
    finished_runs,
    results_folder,
    run_folder,
    settled_rows,
    shown,
    whole,
    work_folder,
)
from circuitax.lab.settle import settle_run
from circuitax.records.rows import Agreement, agreement_text, compare_accepted
from circuitax.records.store import write_json

COMMAND = Command(
    "reproduce",
    """\
First writes the gallery, the ledger and the report in results/latest/ from the accepted runs,
without computing, and says which file to open. Then runs every experiment, first those with most
published results for their expected time, reuses what is finished and resumes what was stopped, and
after each writes beside every result what was measured here. Runs of experiments that were
reproduced before and are not named now stay on the pages; damaged ones are named and left out. At
the end it says how many quantities agree with the accepted ones.
""",
    options=(
        Option("only", "a,b", "experiments, and what they read; all of them by default"),
        Option("scale", "SCALE", "scale of all runs", "quick", SCALES),
        Option(
            "seed",
            "N",
            "seed of all runs; by default 0, and 200 at the scales that are accepted (conf/)",
        ),
        Option("again", "", "whether finished runs are computed again", "no", YES_NO),
        Option(
            "jobs", "N", "experiments side by side; one that measures time is computed alone", "1"
        ),
        Option(
            "launcher",
            "NAME",
            "sends each experiment as a job of Slurm, after those that it reads, as set in "
            "conf/hydra/launcher/NAME.yaml",
            allowed=("slurm_cpu", "slurm_gpu"),
        ),
    ),
)
TYPED = "python -m experiments.reproduce"
UNKNOWN_SECONDS = 600.0  # of an experiment that states none
TOLERATED = 1.5  # times its expected time, beyond which a run is said to be slow
RUNS = "runs.json"  # in results/latest/: the runs made here that its pages show


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Run the suite; exit status 1 when an experiment failed or a run is damaged, naming it."""
    entries = discover()
    jobs, launcher = n_jobs(options["jobs"]), options["launcher"]
    if launcher and not find_spec("submitit"):
        raise UsageError(f'launcher={launcher} needs submitit: pip install -e ".[slurm]"')
    asked = wanted(options["only"], entries)
    names = most_first(asked, entries)
    scale = options["scale"]
    print("writing the pages of what is accepted", flush=True)
    pages = _Pages(entries, results_folder() / "latest")
    print(pages.write(), flush=True)
    # Planning imports JAX, which the pages need not wait for.
    from circuitax.commands.launch import Ended, as_they_end, in_order, log_of, submitted
    from circuitax.config.plan import launcher_settings, plan
    from circuitax.lab.execute import fresh
    from circuitax.lab.loop import StopFlag

    fields = [f"scale={scale}", *([f"seed={options['seed']}"] if options["seed"] else [])]
    again = asked if options["again"] == "yes" else []
    typed = {n: [f"experiment={n}", *fields, *["again=true"] * (n in again)] for n in names}
    with StopFlag() as stop:
        planned = {name: plan(typed[name], entries)[1][0] for name in names}
        folder = {name: run_folder(name, planned[name].id) for name in names}
        there = [name for name in names if name not in again and fresh(planned[name])]
        left = {name: entries[name].requires for name in names if name not in there}
        pages.write({name: folder[name] for name in there})
        print(_announcement(list(left), len(there), entries, scale, jobs), flush=True)
        command = [sys.executable, "-m", "experiments.run"]
        alone = [name for name in left if entries[name].table.alone]
        logs = work_folder() / "reproduce" if jobs > 1 or launcher else None

        def line(name: str) -> list[str]:
            return [*command, *typed[name]]

        ended: list[Ended] = []
        if launcher and logs and left:
            settings = launcher_settings(launcher, next(iter(left)), entries)
            sent = submitted(left, line, settings, alone, logs)
            ending = as_they_end(sent, logs, stop)
        else:
            ending = in_order(left, line, jobs, stop, alone, logs)
        for item in ending:
            ended.append(item)
            if item.status == 0:
                pages.write({item.name: folder[item.name]})
            word = pages.agreement([item.name]) if item.status == 0 else ""
            how = f"[{len(ended)}/{len(left)}] {item.name} {_word(item.status)}"
            expected = entries[item.name].seconds(scale) if scale in ("quick", "evening") else None
            slow = jobs == 1 and expected is not None and item.seconds > TOLERATED * expected
            budget = f", over its budget of {expected:.0f} s" if slow else ""
            print(f"{how}, {item.seconds:.0f} s{budget}{word}", flush=True)
            if item.status and logs:
                print(f"    {_last_line(log_of(item.name, logs))}", flush=True)
    done = [*there, *(item.name for item in ended if item.status == 0)]
    print(f"{len(done)} experiments{pages.agreement(done)}")
    print(pages.places, flush=True)
    if stop.number is not None:
        print(f"stopped after {len(there) + len(ended)} of {len(names)}; the same command resumes")
        return 128 + stop.number
    bad = [f"{item.name} ({_word(item.status)})" for item in ended if item.status]
    for text, what in (("damaged, left out", sorted(pages.left_out)), ("not done", bad)):
        if what:
            print(f"{text}: {', '.join(what)}")
    return 1 if bad or pages.left_out else 0


def most_first(names: list[str], entries: dict[str, ExperimentEntry]) -> list[str]:
    """By published statements for each expected second, then by seconds, after its requirements.

    What an experiment requires, and is not there before it, counts with it. One that finds
    nothing to read here has none.
    """
    seconds = {
        name: entries[name].seconds("quick") or UNKNOWN_SECONDS
        for name in dict.fromkeys(item for name in names for item in upstream_order(name, entries))
    }
    published = {
        name: sum(row.published for row in entries[name].table.rows) * (expected > IDLE_SECONDS)
        for name, expected in seconds.items()
    }
    ordered: list[str] = []

    def new(name: str) -> list[str]:
        return [item for item in upstream_order(name, entries) if item not in ordered]

    def rank(name: str) -> tuple[float, float, str]:
        total = sum(seconds[item] for item in new(name))
        return -sum(published[item] for item in new(name)) / total, total, name

    while waiting := [name for name in names if name not in ordered]:
        ordered += new(min(waiting, key=rank))
    return ordered


class _Pages:
    """The pages: accepted runs, and the numbers of this machine beside their rows."""

    def __init__(self, entries: dict[str, ExperimentEntry], latest: Path) -> None:
        self.left_out: set[str] = set()
        self.places = ""
        self._entries, self._latest = entries, latest
        self._accepted: dict[str, WholeRun] = {}
        self._here: dict[str, WholeRun] = {}
        for name in sorted(entries):
            with suppress(ValueError):
                self._add(self._accepted, name, accepted_run(name))
        with suppress(OSError, ValueError, TypeError, AttributeError):
            named = dict(json.loads((latest / RUNS).read_text(encoding="utf-8")))
            for name, run in named.items():
                if name in entries and run_folder(name, run) in finished_runs(name):
                    self._add(self._here, name, run_folder(name, run))

    def write(self, ended: dict[str, Path] | None = None) -> str:
        """Write the pages with the experiments that have ended; returns which to open."""
        for name, run in (ended or {}).items():
            self._add(self._here, name, run)
        runs = {**self._here, **self._accepted}
        ordered = {name: runs[name] for name in self._entries if name in runs}
        pages = write_pages(self._latest, ordered, self._entries, TYPED, self._here)
        write_json(self._latest / RUNS, {name: run.name for name, run in self._here.items()})
        gallery, claims, report = map(shown, pages)
        self.places = f"gallery: {gallery}\nledger:  {claims}\nreport:  {report}"
        return (
            f"open {report}: the accepted runs of {len(self._accepted)} experiments; what is "
            "computed here is written beside them"
        )

    def agreement(self, names: Iterable[str]) -> str:
        """How far the runs of some experiments agree with the accepted ones, behind a colon."""
        found: dict[str, Agreement] = {}
        published: list[str] = []
        for name in names:
            if name in self._accepted and name in self._here:
                kept = settled_rows(self._accepted[name])
                found |= compare_accepted(settled_rows(self._here[name]), kept)
                published += [settled.row.id for settled in kept if settled.row.published]
        return f": {agreement_text(found, published)}" if found else ""

    def _add(self, runs: dict[str, WholeRun], name: str, folder: Path) -> None:
        try:
            runs[name] = whole(folder)
            settle_run(folder, self._entries[name])
            self.left_out.discard(f"{name}/{folder.name}")
        except ValueError as error:  # damaged, or without what its rows read
            runs.pop(name, None)
            self.left_out.add(f"{name}/{folder.name}")
            how = "" if isinstance(error, DamagedRun) else f"{name}/{folder.name}: "
            print(f"left out of the pages: {how}{error}", flush=True)


def _announcement(
    left: list[str], there: int, entries: dict[str, ExperimentEntry], scale: str, jobs: int
) -> str:
    """Announcement of the work, of its expected time, and of the way to stop it."""
    finished = f"{there} finished before; " if there else ""
    if not left:
        return f"{finished}nothing to compute"
    seconds = sum(entries[name].seconds(scale) or 0.0 for name in left) / jobs
    hint = f", about {max(seconds / 60, 1):.0f} min" if scale in ("quick", "evening") else ""
    return f"{finished}computing {len(left)}{hint}; Ctrl-C stops, and the same command resumes"


def _word(status: int) -> str:
    if status == 0:
        return "done"
    if status < 0:
        return f"FAILED by signal {-status}"
    return {3: "busy", 130: "stopped", 143: "stopped"}.get(status, "FAILED")


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"{lines[-1] if lines else 'it printed nothing'} ({shown(path)})"
