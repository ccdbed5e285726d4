"""Twins on disk: beside accepted runs, and beside unfinished work for those of other code."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from circuitax.lab.runs import TWIN, WholeRun, accepted_run, whole, work_folder
from circuitax.records.store import write_json

# Outcomes by experiment, beside the accepted runs, which git tracks.
OUTCOMES = "twins.json"


def read_twin(accepted: WholeRun) -> dict[str, Any] | None:
    """The twin of an accepted run; None if it has none.

    Raises:
        ValueError: If the file is damaged.
    """
    return _read(accepted / TWIN)


def checked_twin(run: WholeRun) -> dict[str, Any]:
    """What the last ``experiments.twins keep=yes`` found for an accepted run; empty if nothing.

    Args:
        run: Folder of a run; what is kept about another run of its experiment does not count.
    """
    twin = read_twin(run)
    if twin is None:
        return {}
    kept = _read(run.parents[1] / OUTCOMES) or {}
    about = dict(kept.get(twin["experiment"], {}))
    return about if about.get("computed_by") == twin["commit"] else {}


def remember(twin: Mapping[str, Any]) -> None:
    """Keep a twin beside unfinished work, for `known_twin`."""
    sources = {about["source"] for about in twin["cases"].values() if "source" in about}
    for source in sources:
        write_json(_remembered(twin["experiment"], source), dict(twin))


def known_twin(name: str, source: str) -> dict[str, Any] | None:
    """The twin by the code of a source hash, accepted or remembered; None if there is none."""
    candidates = [_remembered(name, source)]
    with suppress(ValueError):
        candidates.insert(0, whole(accepted_run(name)) / TWIN)
    for path in candidates:
        try:
            twin = _read(path)
        except ValueError:  # made again, when this code is compared with that one
            continue
        if twin and any(about.get("source") == source for about in twin["cases"].values()):
            return twin
    return None


def _remembered(name: str, source: str) -> Path:
    return work_folder() / "twins" / name / f"{source}.json"


def _read(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{path.parent.name}/{path.name} is damaged: {error}") from error
