"""Locations of runs: finished ones by experiment and identity, unfinished ones apart."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NewType

from circuitax.config.catalogue import checkout
from circuitax.data.files import checksum
from circuitax.names import nearest
from circuitax.records.claims import SettledClaim
from circuitax.records.estimate import Estimate, estimate_from_json
from circuitax.records.manifest import damage
from circuitax.records.settled_json import settled_from_json
from circuitax.records.store import recover, recover_all

# Another place for results, such as a scratch disk.
VARIABLE = "CIRCUITAX_RESULTS"
PROVENANCE = "provenance.json"
SPEC = "spec.json"
CLAIMS = "claims.json"
SCALARS = "scalars.json"
SETTLED = "settled.json"
FIGURES = "figures"
FIGURES_FAILED = "figures_failed.txt"
TIMES = "times.json"
# Of an accepted run: digests of a small run by the same code.
TWIN = "twin.json"
# What is made again from the data of a run, when it is damaged or its source has changed, and how
# long that took.
DERIVED = (CLAIMS, SCALARS, SETTLED, FIGURES, FIGURES_FAILED, TIMES)
ACCEPTED = "accepted"
# The folder of a run's arrays. Of them git keeps small copies of weights, whose names begin with
# PUBLISHED, and beside them the tokenizer.
ARRAYS = "arrays"
PUBLISHED = "published-"
TOKENIZER = "tokenizer.json"
# Bytes of a name on usual file systems; asking for a longer one is an error of the disk.
_LONGEST_NAME = 255
# In nanoseconds; some disks keep no shorter time of a file.
_SECOND = 1_000_000_000
# Folders beside the runs of an experiment that are not runs of its own.
_NOT_RUNS = {ACCEPTED, "collected", "sweeps"}

# A run all of whose files have the checksums of its manifest. What reads a run asks for one, and
# `whole` alone makes them: it is the one door.
WholeRun = NewType("WholeRun", Path)


class DamagedRun(ValueError):
    """A run whose checksums do not match.

    Args:
        run: Its folder.
        wrong: What is wrong with its first damaged file.
    """

    def __init__(self, run: Path, wrong: str) -> None:
        accepted = run.name == ACCEPTED
        mended = "git brings it back" if accepted else "the command that made it computes it again"
        super().__init__(f"RUN={shown(run)} must be whole, but {wrong}: {mended}")
        self.wrong = wrong


def results_folder() -> Path:
    """``results/`` of the checkout, or the folder of ``CIRCUITAX_RESULTS``."""
    given = os.environ.get(VARIABLE)
    # Of a loop of links, `resolve` would raise what is no error of the disk.
    return Path(os.path.realpath(given)) if given else checkout() / "results"


def work_folder() -> Path:
    """Folder of everything unfinished, ignored by git."""
    return results_folder() / ".work"


def run_folder(experiment: str, run: str) -> Path:
    """Folder of the finished run of this identity, which may not exist yet."""
    return results_folder() / experiment / run


def accepted_run(experiment: str) -> Path:
    """The accepted run of an experiment, in the results folder or else in the checkout.

    Raises:
        ValueError: If there is none, or no checkout: the wheel holds the library only.
    """
    # Results may be kept elsewhere; what was accepted is in the checkout all the same.
    places = (results_folder(), checkout() / "results")
    for folder in (place / experiment / ACCEPTED for place in places):
        recover(folder)
        if (folder / PROVENANCE).is_file():
            return folder
    raise ValueError(
        f"experiment={experiment} must have an accepted run: those of a clone of the repository "
        f"are in {places[-1]}"
    )


def finished_runs(experiment: str) -> list[Path]:
    """Folders of the finished runs of an experiment, the oldest first; accepted ones left out."""
    folder = results_folder() / experiment
    recover_all(folder)
    found = [
        path.parent
        for path in folder.glob(f"*/{PROVENANCE}")
        if path.parent.name not in _NOT_RUNS and not path.parent.name.startswith(".")
    ]
    return sorted(found, key=lambda run: (run / PROVENANCE).stat().st_mtime)


def make_newest(run: Path) -> None:
    """Mark a finished run as the newest of its experiment, whatever the clock says."""
    path = run / PROVENANCE
    others = [(other / PROVENANCE).stat() for other in finished_runs(run.parent.name)]
    latest = max(facts.st_mtime_ns for facts in others)
    if path.stat().st_mtime_ns < latest:
        os.utime(path, ns=(latest + _SECOND, latest + _SECOND))


def named_runs(item: str) -> list[Path]:
    """The finished runs that match a name, the oldest first; an accepted one comes last.

    Args:
        item: A run's folder, ``NAME/RUN`` below the results, a RUN alone where it is the only one
            of that name, or an experiment's ``NAME`` for all its runs.

    Raises:
        ValueError: If there is no such run, or several experiments have one.
    """
    if any(len(part.encode()) > _LONGEST_NAME for part in Path(item).parts):
        raise ValueError(f"RUN={item[:60]}... must be the folder of a finished run: it is too long")
    for folder in (Path(os.path.realpath(item)), results_folder() / item):
        recover(folder)
        if (folder / PROVENANCE).is_file():
            return [folder]
    found = finished_runs(item)
    if (results_folder() / item / ACCEPTED / PROVENANCE).is_file():
        found.append(results_folder() / item / ACCEPTED)
    if found:
        return found
    alone = sorted(
        run
        for run in results_folder().glob("*/*")
        if run.name == item and (run / PROVENANCE).is_file()
    )
    if len(alone) > 1:
        several = ", ".join(f"{run.parent.name}/{item}" for run in alone)
        raise ValueError(f"RUN={item} must name one run: there are {several}")
    if not alone:
        names = sorted(
            {path.parents[1].name for path in results_folder().glob(f"*/*/{PROVENANCE}")}
        )
        near = nearest(item, names)
        raise ValueError(
            f"RUN={item} must be the folder of a finished run, or an experiment with one{near}"
        )
    return alone


def whole(run: Path) -> WholeRun:
    """The run of a folder, after all its checksums have been verified.

    Raises:
        ValueError: If there is no such folder.
        DamagedRun: Naming the first file that is not.
    """
    if not run.is_dir():
        raise ValueError(f"run={run.name!r} must be the folder of a finished run")
    if wrong := damage(run):
        raise DamagedRun(run, wrong)
    return WholeRun(run)


def newest_run(item: str) -> WholeRun:
    """The newest run of a name, as `named_runs`: the accepted one only where no other is."""
    runs = named_runs(item)
    computed = [run for run in runs if run.name != ACCEPTED]
    return whole((computed or runs)[-1])


def provenance(run: WholeRun) -> dict[str, Any]:
    """The provenance of a finished run."""
    return dict(json.loads((run / PROVENANCE).read_text(encoding="utf-8")))


def spec_fields(run: WholeRun) -> dict[str, Any]:
    """The spec of a finished run as plain values, by dotted field."""
    return flat(json.loads((run / SPEC).read_text(encoding="utf-8")))


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted name.

    Args:
        values: Values and mappings of values.
        prefix: In front of every name, with a dot at its end.
    """
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def scalars(run: Path) -> dict[str, Estimate]:
    """The numbers behind the claims of a finished run, by name.

    Raises:
        DamagedRun: If they are not as they were settled.
    """
    measured = _settled(run, SCALARS)["measured"]
    return {name: estimate_from_json(fields) for name, fields in measured.items()}


def verdicts(run: Path) -> list[SettledClaim]:
    """The latest verdicts of a finished run.

    Raises:
        DamagedRun: If they are not as they were settled.
    """
    return [settled_from_json(row) for row in _settled(run, CLAIMS)]


def _settled(run: Path, name: str) -> Any:
    """A file written by `settle`: derived from the data, so the manifest leaves it out."""
    try:
        kept = json.loads((run / SETTLED).read_text(encoding="utf-8"))
        if checksum(run / name) == kept["sha256"][name]:
            return json.loads((run / name).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DamagedRun(run, f"{name} is damaged") from error
    raise DamagedRun(run, f"{name} is damaged")


def figures(run: Path) -> Iterator[Path]:
    """The PNG figures of a run, by name."""
    recover(run / FIGURES)
    yield from sorted((run / FIGURES).glob("*.png"))


def shown(path: Path) -> str:
    """A path for display: relative to the working folder when below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
