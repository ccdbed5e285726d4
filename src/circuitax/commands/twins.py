"""Compare the code with accepted runs: ``python -m experiments.twins [only=a,b]``."""

import json
import logging
import math
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from circuitax.commands.options import YES_NO, Command, Option, n_jobs, refuse, wanted
from circuitax.config.catalogue import ExperimentEntry, checkout, discover
from circuitax.lab.cheap_code import use_cheap_code
from circuitax.lab.runs import (
    VARIABLE,
    DamagedRun,
    WholeRun,
    accepted_run,
    provenance,
    results_folder,
    run_folder,
    whole,
    work_folder,
)
from circuitax.lab.source import numbers_hash
from circuitax.lab.twin_files import OUTCOMES, known_twin, read_twin, remember
from circuitax.records.provenance import checkout_state
from circuitax.records.store import write_json
from circuitax.records.twin import DIFFERENT, NOT_COMPUTED, ROUNDED, SAME

if TYPE_CHECKING:  # what imports JAX is imported by functions: not for --help
    from circuitax.config.planned_runs import PlannedRun

COMMAND = Command(
    "twins",
    """\
A twin is a small run by the code that computed an accepted run, kept as digests of its variables in
results/NAME/accepted/twin.json. This command computes every twin with the code that is here and
says what became of it:
  same          every variable has the same bits
  rounded       processor or libraries are others, and no number differs by more than rounding
  different     named variables differ: accepted numbers may not be those of this code
  not computed  a package or text that it reads is not here, or is another one
Exit status 1 if one is different, or could not be computed for an error.
""",
    options=(
        Option("only", "a,b", "experiments; all of them by default"),
        Option("jobs", "N", "twins side by side", "1"),
        Option(
            "keep",
            "",
            "yes writes the outcome to results/twins.json, from which the pages say it",
            "no",
            YES_NO,
        ),
    ),
)
# A twin that raised an error, beside the outcomes of a comparison.
FAILED = "failed"
_ORDER = (SAME, ROUNDED, DIFFERENT, NOT_COMPUTED, FAILED)


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Check twins; exit status 1 if one is different, 2 if nothing was done."""
    try:
        entries = discover()
        jobs = n_jobs(options["jobs"])
        asked = wanted(options["only"], entries)
        damaged: dict[str, dict[str, Any]] = {}
        kept = {}
        for name in asked:
            try:
                if (twin := accepted_twin(name)) is not None:
                    kept[name] = twin
            except DamagedRun as error:
                damaged[name] = {"outcome": FAILED, "reason": str(error)}
        if options["only"] and (lacking := sorted({*asked} - {*kept, *damaged})):
            raise ValueError(f"only={lacking[0]} has no accepted run with a twin")
    except ValueError as error:
        return refuse(error)
    found: dict[str, dict[str, Any]] = {}
    for name, outcome in (*damaged.items(), *checked(kept, jobs)):
        found[name] = outcome
        print(f"{name}: {in_words(outcome)}", flush=True)
    counts = {word: sum(item["outcome"] == word for item in found.values()) for word in _ORDER}
    print("; ".join(f"{count} {word}" for word, count in counts.items() if count) or "no twins")
    if options["keep"] == "yes":
        keep(found)
    return 1 if counts[DIFFERENT] or counts[FAILED] else 0


def accepted_twin(name: str) -> dict[str, Any] | None:
    """The twin of the accepted run of an experiment; None without run or twin.

    Raises:
        DamagedRun: If the accepted run is not whole.
    """
    try:
        run = accepted_run(name)
    except ValueError:
        return None
    return read_twin(whole(run))


def checked(kept: Mapping[str, dict[str, Any]], jobs: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each experiment with the outcome of its saved twin, in order of completion."""
    with _pool(min(jobs, len(kept) or 1)) as pool:
        waiting = {pool.submit(repeat, twin): name for name, twin in kept.items()}
        for future in as_completed(waiting):
            try:
                outcome, here = future.result()
            except Exception as error:
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                yield waiting[future], {"outcome": FAILED, "reason": reason}
            else:
                remember(here)
                yield waiting[future], outcome


def made(runs: Mapping[str, WholeRun]) -> dict[str, dict[str, Any]]:
    """A new twin for the run of each experiment, by the present code.

    Args:
        runs: Folders of finished runs, by experiment.
    """
    facts = {name: provenance(run) for name, run in runs.items()}
    with _pool(1) as pool:
        waiting = {n: pool.submit(make, n, f["seed"], f["dtype"]) for n, f in facts.items()}
        return {name: future.result() for name, future in waiting.items()}


def alike(planned: "PlannedRun", say: Callable[[str], None]) -> frozenset[str]:
    """Source hashes of finished runs, of this one and its inputs, whose code has the same twin.

    Args:
        planned: What is asked for, with ``reuse=twin``.
        say: Told about each finished run of other code.
    """
    found: set[str] = set()
    for item in planned.inputs:
        found |= alike(item, say)
    folder = run_folder(planned.entry.name, planned.id)
    try:
        source = provenance(whole(folder))["source"]
    except ValueError:  # damaged, or not there yet
        return frozenset(found)
    if source == numbers_hash(each.path for each in _all_read(planned)):
        return frozenset(found)
    kept = known_twin(planned.entry.name, source)
    if kept is None:
        say(f"{planned.entry.name} {planned.id}: no twin by the code that computed it is known")
        return frozenset(found)
    with _pool(1) as pool:
        outcome, here = pool.submit(repeat, kept).result()
    remember(here)
    say(f"{planned.entry.name} {planned.id}: twin by its code and by this: {in_words(outcome)}")
    return frozenset(found | ({source} if outcome["outcome"] == SAME else set()))


def _all_read(planned: "PlannedRun") -> list[ExperimentEntry]:
    return [planned.entry, *(entry for item in planned.inputs for entry in _all_read(item))]


def repeat(kept: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outcome of a saved twin, and the twin by this code; in a process of the pool."""
    from circuitax.lab.stop import StopFlag
    from circuitax.lab.twins import compare_twins, repeat_twin

    with StopFlag() as stop, _compiled():
        here = repeat_twin(kept, discover(), stop)
    found = compare_twins(here, kept)._asdict()
    # JSON has no infinity, and a variable that is not there has no size.
    size = found["largest"] if math.isfinite(found["largest"]) else None
    return {"computed_by": kept["commit"], **found, "largest": size}, here


def make(name: str, seed: int, dtype: str) -> dict[str, Any]:
    """A new twin of an experiment; in a process of the pool."""
    from circuitax.lab.stop import StopFlag
    from circuitax.lab.twins import make_twin

    entries = discover()
    with StopFlag() as stop, _compiled():
        return make_twin(entries[name], entries, seed=seed, dtype=dtype, stop=stop)


def _pool(jobs: int) -> ProcessPoolExecutor:
    """A process pool with the XLA flags and the number of devices of twins."""
    spawn = multiprocessing.get_context("spawn")
    results = str(work_folder() / "twins")
    return ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_prepare, initargs=(results,))


def _prepare(results: str) -> None:
    # What the command that asks has for itself is not for twins.
    for variable in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES"):
        os.environ.pop(variable, None)
    use_cheap_code()
    os.environ[VARIABLE] = results
    # Progress of runs that take seconds, side by side, is for nobody.
    logging.getLogger("circuitax").propagate = False
    sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # for the process's life


@contextmanager
def _compiled() -> Iterator[None]:
    """Context that caches compiled code on disk, and releases it afterwards."""
    import jax  # not for --help

    from circuitax.lab.compilation import keep_compiled_code, multiply_in_float32

    keep_compiled_code(checkout() / ".cache")
    multiply_in_float32()
    try:
        yield
    finally:
        jax.clear_caches()


def in_words(outcome: dict[str, Any]) -> str:
    """One line about the outcome of a twin."""
    word = outcome["outcome"]
    said = [word]
    if word == FAILED:
        said.append(outcome["reason"])
    if word in (ROUNDED, DIFFERENT):
        variables = outcome["variables"]
        more = f" and {len(variables) - 6} more" if len(variables) > 6 else ""
        size = outcome["largest"]
        how = "not comparable" if size is None else f"largest difference {size:.1e}"
        said.append(f"{how} in {', '.join(variables[:6])}{more}")
    said += [f"{case} not computed: {why}" for case, why in outcome.get("left_out", {}).items()]
    return "; ".join(said)


def keep(found: dict[str, dict[str, Any]]) -> None:
    """Write outcomes, with the checked commit, beside those of other experiments."""
    path = results_folder() / OUTCOMES
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    commit, dirty = checkout_state(checkout())
    facts = {"checked_at": commit, "dirty": dirty}
    write_json(path, dict(sorted((before | {n: {**facts, **o} for n, o in found.items()}).items())))
