"""Twins of the experiments of tests/house: the same bits by the same code, other code is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from circuitax.config import twins as settings_of_twins
from circuitax.config.catalogue import ExperimentEntry
from circuitax.config.twins import Settings, new_settings, planned_twin
from circuitax.lab import twins
from circuitax.lab.stop import StopFlag
from circuitax.lab.twin_files import known_twin, remember
from circuitax.lab.twins import compare_twins, make_twin, repeat_twin
from circuitax.records.manifest import write_manifest
from circuitax.records.twin import DIFFERENT, NOT_COMPUTED, SAME


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What ``conf/twins.yaml`` would say."""
    content: dict[str, Any] = {}
    monkeypatch.setattr(settings_of_twins, "_file", lambda: content)
    return content


def made(entries: dict[str, ExperimentEntry], name: str = "house_walk") -> dict[str, Any]:
    twin = make_twin(entries[name], entries, seed=3, dtype="float32", stop=StopFlag())
    return dict(json.loads(json.dumps(twin)))


def test_the_same_code_gives_the_same_bits(
    entries: dict[str, ExperimentEntry], declared: dict[str, Any]
) -> None:
    declared["house_walk"] = {"cases": {"plain": {}, "wide": {"members": 5, "rate": [0.3, 0.4]}}}
    twin = made(entries)
    assert set(twin["cases"]) == {"plain", "wide"}
    wide = twin["cases"]["wide"]["settings"]
    assert wide["seed"] == 3 and wide["specs"]["house_walk"]["members"] == 5
    assert wide["specs"]["house_walk"]["rate"] == [0.3, 0.4]
    here = repeat_twin(twin, entries, StopFlag())
    assert compare_twins(here, twin) == (SAME, (), 0.0, {})


def test_a_changed_number_is_named(
    entries: dict[str, ExperimentEntry], declared: dict[str, Any]
) -> None:
    twin = made(entries)
    ((case, about),) = twin["cases"].items()
    name = next(name for name, mark in about["digest"].items() if mark[1])
    about["digest"][name] = ["0" * 16, [1 + x for x in about["digest"][name][1]]]
    found = compare_twins(repeat_twin(twin, entries, StopFlag()), twin)
    assert found.outcome == DIFFERENT and found.variables == (f"{case}: {name}",)
    assert found.largest > 0
    declared["house_walk"] = {"varies": [name]}
    assert compare_twins(repeat_twin(twin, entries, StopFlag()), twin).outcome == SAME


def test_a_twin_keeps_its_own_settings(
    entries: dict[str, ExperimentEntry], declared: dict[str, Any]
) -> None:
    """Fields that are new have their defaults; those that are gone make the twin different."""
    twin = made(entries)
    about = twin["cases"]["small"]
    spec = about["settings"]["specs"]["house_walk"]
    del spec["members"]  # 3 by default
    assert compare_twins(repeat_twin(twin, entries, StopFlag()), twin).outcome == SAME
    spec["gone"] = 1
    found = compare_twins(repeat_twin(twin, entries, StopFlag()), twin)
    assert found.outcome == DIFFERENT and "gone" in found.variables[0]


def test_what_it_reads_has_the_settings_of_the_twin(
    entries: dict[str, ExperimentEntry], declared: dict[str, Any]
) -> None:
    settings = new_settings("house_reader", {}, entries, seed=2, dtype="float64")
    assert list(settings.specs) == ["house_walk", "house_reader"]
    settings.specs["house_walk"]["members"] = 7
    cell = planned_twin(settings, entries)
    assert cell.inputs[0].spec.members == 7 and cell.inputs[0].settings.seed == 2
    assert cell.settings.dtype.name == "float64"
    assert planned_twin(Settings(**settings._asdict()), entries).id == cell.id


def test_another_text_is_not_compared(
    entries: dict[str, ExperimentEntry], declared: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = made(entries)
    twin["cases"]["small"]["outside"] = {"house_walk.text": "a checksum"}
    here = repeat_twin(twin, entries, StopFlag())
    assert compare_twins(here, twin) == (
        NOT_COMPUTED, (), 0.0, {"small": "house_walk.text is not here"}
    )  # fmt: skip


def test_a_twin_is_found_by_the_hash_of_its_code(
    entries: dict[str, ExperimentEntry], declared: dict[str, Any], results: Path
) -> None:
    twin = made(entries)
    source = twin["cases"]["small"]["source"]
    assert known_twin("house_walk", source) is None
    remember(twin)
    assert known_twin("house_walk", source) == twin
    assert known_twin("house_walk", "000000000000") is None
    accepted = results / "house_walk" / "accepted"
    accepted.mkdir(parents=True)
    (accepted / "provenance.json").write_text("{}")
    other = {"cases": {"small": {"source": "1" * 12}}}
    (accepted / "twin.json").write_text(json.dumps(other))
    write_manifest(accepted)
    assert known_twin("house_walk", "1" * 12) == other
    (accepted / "twin.json").write_text("{")
    assert known_twin("house_walk", "1" * 12) is None
    assert known_twin("house_walk", source) == twin
    (results / ".work" / "twins" / "house_walk" / f"{source}.json").write_bytes(b"\xff{")
    assert known_twin("house_walk", source) is None, "the next comparison makes it again"


def test_a_case_without_its_text_is_left_out(
    entries: dict[str, ExperimentEntry], declared: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object, **__: object) -> None:
        raise twins.TextError("the package of the text is not installed")

    monkeypatch.setattr(twins, "conduct", lacking)
    with pytest.raises(ValueError, match=r"twin of house_walk cannot be computed.*not installed"):
        made(entries)
