"""Run every experiment, cheap ones first: ``python -m experiments.reproduce [only=a,b]``."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from circuitax.commands.options import one_of, read_options, refuse, wanted
from circuitax.config.catalogue import Entry, discover, upstream_order
from circuitax.config.schema import ConfigError
from circuitax.lab.pages import write_pages
from circuitax.lab.runs import results_folder, run_folder, shown, work_folder
from circuitax.lab.stop import StopFlag

HELP = """\
usage: python -m experiments.reproduce [only=a,b] [scale=tiny|quick|paper] [seed=N] [again=no|yes]

Runs every experiment in increasing expected time, reuses what is finished and resumes what was
stopped. The gallery and the claims page in results/latest/ are written anew after each.
Without seed=, each experiment has the seed of its own configuration: 0, or another where claims
were worded after a look at seed 0. again=yes computes the experiments named again, although they
are finished.
"""
OPTIONS = {"only": "", "scale": "quick", "seed": "", "again": "no"}
COMMAND = "python -m experiments.reproduce"
# A run that takes this many times its budget is a defect.
TOLERATED = 1.5


class Result(NamedTuple):
    """What came of one experiment."""

    name: str
    status: int
    seconds: float
    run: Path | None


def main(arguments: list[str] | None = None) -> int:
    """Run the suite; exit status 1 when an experiment failed, naming it."""
    typed = sys.argv[1:] if arguments is None else arguments
    if {"-h", "--help"} & set(typed):
        print(HELP, end="")
        return 0
    try:
        entries = discover()
        options = read_options(typed, OPTIONS)
        one_of("scale", options["scale"], ("tiny", "quick", "paper"))
        one_of("again", options["again"], ("no", "yes"))
        asked = wanted(options["only"], entries)
        names = cheap_first(asked, entries)
    except (ConfigError, ValueError) as error:
        return refuse(error)
    again = asked if options["again"] == "yes" else []
    return _suite(names, entries, options, again)


def cheap_first(names: list[str], entries: dict[str, Entry]) -> list[str]:
    """By expected seconds, each after the experiments that it requires."""
    ordered: list[str] = []
    for name in sorted(names, key=lambda name: (entries[name].budget_seconds, name)):
        for item in upstream_order(name, entries):
            if item not in ordered:
                ordered.append(item)
    return ordered


def _suite(
    names: list[str], entries: dict[str, Entry], options: dict[str, str], again: list[str]
) -> int:
    latest = results_folder() / "latest"
    results: list[Result] = []
    with StopFlag() as stop:
        for number, name in enumerate(names):
            left = [entries[item].budget_seconds for item in names[number:]]
            known = sum(seconds for seconds in left if seconds < float("inf"))
            hint = f", about {known / 60:.0f} min left" if options["scale"] == "quick" else ""
            _say(f"[{number + 1}/{len(names)}] {name}{hint}")
            results.append(_run_one(name, options, stop, again=name in again))
            runs = {item.name: item.run for item in results if item.run is not None}
            gallery, ledger = write_pages(latest, runs, entries, COMMAND)
            if stop.number is not None:
                _say("stopped; the same command resumes")
                return 128 + stop.number
    _report(results, entries, options["scale"])
    _say(f"gallery: {shown(gallery)}\nclaims:  {shown(ledger)}")
    failed = [item.name for item in results if item.status != 0]
    if failed:
        _say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def _run_one(name: str, options: dict[str, str], stop: StopFlag, *, again: bool) -> Result:
    # A process of its own: a crash, or memory not given back, does not reach the others.
    folder = work_folder() / "reproduce" / f"{name}_{time.time_ns()}"
    command = [sys.executable, "-m", "experiments.run", f"experiment={name}"]
    command += [f"scale={options['scale']}", f"hydra.run.dir={folder}"]
    command += [f"seed={options['seed']}"] if options["seed"] else []
    command += ["again=true"] if again else []
    began = time.monotonic()
    child = subprocess.Popen(command)
    told = False
    while True:
        try:
            status = child.wait(timeout=0.2)
            break
        except subprocess.TimeoutExpired:
            # A terminal's Ctrl-C reaches the child by itself, SIGTERM does not.
            if stop.number == signal.SIGTERM and not told:
                child.send_signal(signal.SIGTERM)
                told = True
    left = folder / "status.json"
    run = json.loads(left.read_text(encoding="utf-8"))["run"] if left.is_file() else None
    where = run_folder(name, run) if run else None
    return Result(name, status, time.monotonic() - began, where)


def _report(results: list[Result], entries: dict[str, Entry], scale: str) -> None:
    width = max(len(item.name) for item in results)
    for item in results:
        budget = entries[item.name].budget_seconds
        slow = scale == "quick" and item.seconds > TOLERATED * budget
        note = f"over its budget of {budget:.0f} s" if slow else ""
        word = "done" if item.status == 0 else "FAILED"
        _say(f"  {item.name:{width}}  {word:6}  {item.seconds:7.1f} s  {note}".rstrip())


def _say(text: str) -> None:
    print(text, flush=True)
