"""Which runs a sweep is made of: noted before it starts, so that ``collect`` misses none.

The notes of an experiment are numbered in the order in which its sweeps began: a clock may go back.
"""

import json
from pathlib import Path
from typing import Any

from circuitax.lab.runs import results_folder
from circuitax.records.store import write_json

FOLDER = "sweeps"


def sweeps_of(experiment: str) -> dict[str, list[dict[str, Any]]]:
    """The jobs of each sweep of an experiment, with run and overrides; the latest sweep last.

    Raises:
        ValueError: If a note is damaged.
    """
    found = {path.stem: _note(path) for path in _paths(experiment)}
    ordered = sorted(found, key=lambda name: (found[name][0], name))
    return {name: found[name][1] for name in ordered}


def note_sweep(experiment: str, name: str, jobs: list[dict[str, Any]]) -> str:
    """Note a sweep as the latest one; its name, which has a number if another has that name.

    Args:
        experiment: Its experiment.
        name: Of its folder.
        jobs: Identity of the run and overrides of each job.
    """
    known: dict[str, tuple[int, Any]] = {}
    for path in _paths(experiment):
        try:
            known[path.stem] = _note(path)
        except ValueError:  # damaged, which whoever collects it is told
            known[path.stem] = 0, None
    free, nth = name, 1
    while free in known and known[free][1] != jobs:
        nth += 1
        free = f"{name}.{nth}"
    number = 1 + max((number for number, _ in known.values()), default=0)
    path = results_folder() / experiment / FOLDER / f"{free}.json"
    write_json(path, {"number": number, "jobs": jobs})
    return free


def _paths(experiment: str) -> list[Path]:
    return sorted((results_folder() / experiment / FOLDER).glob("*.json"))


def _note(path: Path) -> tuple[int, list[dict[str, Any]]]:
    """Number and jobs of a sweep; one that an earlier version noted has no number."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        jobs = [{"run": str(j["run"]), "overrides": list(j["overrides"])} for j in kept["jobs"]]
        return int(kept.get("number", 0)), jobs
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"sweep {path.stem} of {path.parents[1].name} is damaged: delete {path.name!r} in "
            f"{FOLDER}/, or collect with sweep=all"
        ) from error
