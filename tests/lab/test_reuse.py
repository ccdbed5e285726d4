"""Why a finished run is computed again, said in words before it begins."""

import json
import shutil
from pathlib import Path

import pytest

from circuitax.config.catalogue import ExperimentEntry
from circuitax.config.planned_runs import PlannedRun, plan
from circuitax.lab import reuse
from circuitax.lab.conduct import conduct
from circuitax.lab.runs import DERIVED, run_folder
from circuitax.lab.stop import StopFlag
from circuitax.records.manifest import write_manifest


def reader(entries: dict[str, ExperimentEntry], *typed: str) -> PlannedRun:
    return plan(["experiment=house_reader", "scale=tiny", *typed], entries)[1][0]


def change(folder: Path, facts: dict) -> None:
    path = folder / "provenance.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))
    write_manifest(folder, left_out=DERIVED)


def test_each_reason(
    entries: dict[str, ExperimentEntry], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = reader(entries)
    assert list(reuse.reasons(cell)) == [], "there is no run"
    run = conduct(cell, command="c", stop=StopFlag(), say=lambda text: None).folder
    assert list(reuse.reasons(cell)) == [], "nothing changed"
    begin = f"house_reader {cell.id} is computed again: "
    (walk,) = cell.inputs
    source = run_folder("house_walk", walk.id)
    facts = json.loads((run / "provenance.json").read_text())
    change(run, {"input_data": {"house_walk": "another"}})
    assert list(reuse.reasons(cell)) == [f"{begin}the data of its input house_walk changed"]
    shutil.move(source, source.with_name("moved"))
    assert list(reuse.reasons(cell)) == [f"{begin}its input house_walk is not there any more"]
    shutil.move(source.with_name("moved"), source)
    change(run, facts)
    assert list(reuse.reasons(cell)) == []
    change(run, {"source": "other", "versions": facts["versions"] | {"jax": "0.0.1"}})
    (line,) = reuse.reasons(cell)
    assert line.startswith(f"{begin}jax 0.0.1 -> ") and line.endswith(" changed")
    change(run, {"source": "other", "versions": facts["versions"]})
    (line,) = reuse.reasons(cell)
    assert line.startswith(f"{begin}code that its numbers depend on changed (reuse=twin")
    assert list(reuse.reasons(cell, frozenset({"other"}))) == []
    change(source, {"source": "other"})
    assert [text.split()[0] for text in reuse.reasons(cell)] == ["house_walk", "house_reader"]
    change(run, facts)
    assert (
        list(reuse.reasons(reader(entries, "again=true")))[-1] == f"{begin}again=true asks for it"
    )
