"""The suite on the walk: pages first, then runs beside what was accepted; and accepting them."""

import json
from pathlib import Path

import pytest

from circuitax.commands import accept, render, reproduce, twins
from circuitax.lab import snapshot
from circuitax.lab.runs import finished_runs, whole


def suite(*typed: str) -> int:
    return reproduce.main(["only=house_reader", "scale=tiny", *typed])


def test_a_suite_computes_what_is_read_first_and_then_reuses_it(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert suite("jobs=1") == 0
    said = capsys.readouterr().out
    assert "computing 2" in said and "[1/2] house_walk done" in said
    assert "[2/2] house_reader done" in said
    assert "It spreads." in (results / "latest" / "report.html").read_text()
    assert suite() == 0
    assert "2 finished before; nothing to compute" in capsys.readouterr().out
    (run,) = finished_runs("house_walk")
    (run / "data.nc").write_bytes(b"")
    assert suite() == 0
    assert "house_walk done" in capsys.readouterr().out and whole(run)


def test_an_accepted_run_is_small_whole_and_beside_the_next_one(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert accept.main(["only=house_walk"]) == 2
    assert "has no finished run" in capsys.readouterr().err
    assert suite() == 0
    (run,) = finished_runs("house_walk")
    facts = json.loads((run / "provenance.json").read_text())
    assert "house_walk.experiment" in facts["modules"]
    dirty = "dirty=yes" if facts["dirty"] is not False else "dirty=no"
    assert accept.main(["only=house_walk", "twin=no", dirty]) == 0
    folder = whole(results / "house_walk" / "accepted")
    assert not (folder / "arrays").exists() and not (folder / "log.txt").exists()
    assert [path.name for path in (folder / "figures").iterdir()] == ["path.png"]
    assert "It spreads." in (results / "CLAIMS.md").read_text() + "".join(
        path.read_text() for path in (results / "claims").glob("*.md")
    )
    capsys.readouterr()
    assert suite() == 0
    assert "1 of 1 measured quantities agree" in capsys.readouterr().out
    assert accept.main(["settle=yes", "only=house_walk"]) == 0
    assert render.main(["house_walk/accepted"]) == 0
    assert (folder / "figures" / "path.pdf").is_file()

    monkeypatch.setattr("circuitax.lab.source._mark", lambda name: "another")
    capsys.readouterr()
    assert accept.main(["only=house_walk", "dirty=yes"]) == 2
    assert "was computed by other code" in capsys.readouterr().err


def test_a_twin_tells_the_same_code_from_another(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_machine", lambda: {"processor": "this"})
    twin = snapshot.make("house_walk", 3, "float32")
    assert list(twin["cases"]["small"]["digest"])[:1] and "arrays/end/position" in str(twin)
    assert snapshot.repeat(twin)["outcome"] == "same"
    twin["cases"]["small"]["digest"]["end"][0] = "0123"
    twin["cases"]["small"]["digest"]["end"][1][0] += 1
    found = snapshot.repeat(twin)
    assert (found["outcome"], found["variables"]) == ("different", ["small: end"])
    twin["cases"]["small"]["settings"]["specs"]["house_walk"]["speed"] = 1
    assert snapshot.repeat(twin)["outcome"] == "different"
    assert snapshot.in_words(found).startswith("different; largest difference ")
    assert twins.main(["only=house_walk"]) == 2
    assert "has no accepted run with a twin" in capsys.readouterr().err
