"""``experiments.twins``: accepted runs and the code, compared in processes of their own."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from circuitax.commands import accept, twins
from circuitax.lab.runs import DERIVED, finished_runs, provenance
from circuitax.records.manifest import damage, write_manifest


@pytest.mark.slow
def test_from_acceptance_to_the_pages(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk("seed=5") == 0
    assert accept.main(["dirty=yes"]) == 0
    kept = results / "house_walk" / "accepted" / "twin.json"
    twin = json.loads(kept.read_text())
    (case,) = twin["cases"].values()
    assert case["settings"]["seed"] == 5 and case["source"] == provenance(kept.parent)["source"]
    assert damage(kept.parent) == ""
    assert twins.main(["only=house_walk", "keep=yes"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["house_walk: same", "1 same"]
    assert accept.main(["settle=yes"]) == 0
    said = "the present code gives the same tiny run, bit by bit (checked at"
    assert said in (results / "gallery" / "further.md").read_text()
    assert said in (results / "claims/code.md").read_text()

    name, (_, values, kind) = next(row for row in case["digest"].items() if row[1][1])
    case["digest"][name] = ["0" * 16, [x + 1 for x in values], kind]
    kept.write_text(json.dumps(twin))
    assert accept.main(["settle=yes"]) == 2, "the manifest knows the twin"
    capsys.readouterr()
    assert twins.main(["only=house_walk"]) == 1
    assert "must be whole, but twin.json is damaged: git brings it" in capsys.readouterr().out
    write_manifest(kept.parent, left_out=DERIVED)
    assert twins.main(["only=house_walk", "keep=yes"]) == 1
    assert "different; largest difference" in (said := capsys.readouterr().out) and name in said

    case["digest"]["gone"] = ["0" * 16, [1.5]]  # a variable that this code does not record
    kept.write_text(json.dumps(twin))
    write_manifest(kept.parent, left_out=DERIVED)
    assert twins.main(["only=house_walk", "keep=yes"]) == 1
    assert "different; not comparable in" in (said := capsys.readouterr().out) and "gone" in said
    assert json.loads((results / "twins.json").read_text())["house_walk"]["largest"] is None


@pytest.mark.slow
def test_a_run_of_code_with_the_same_twin_is_reused_when_asked(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk() == 0
    assert accept.main(["dirty=yes"]) == 0
    (run,) = finished_runs("house_walk")
    kept = results / "house_walk" / "accepted" / "twin.json"
    twin = json.loads(kept.read_text())
    older = "0" * 12
    for about in twin["cases"].values():
        about["source"] = older
    kept.write_text(json.dumps(twin))
    write_manifest(kept.parent, left_out=DERIVED)
    facts = provenance(run)

    def made_by(source: str) -> None:
        (run / "provenance.json").write_text(json.dumps({**facts, "source": source}))
        write_manifest(run, left_out=DERIVED)

    made_by(older)
    capsys.readouterr()
    assert walk("reuse=twin") == 0
    said = capsys.readouterr().err
    assert "twin by its code and by this: same" in said and "is there already" in said
    assert provenance(run)["source"] == older
    made_by("1" * 12)
    assert walk("reuse=twin") == 0
    said = capsys.readouterr().err
    assert "no twin by the code that computed it is known" in said and "done in" in said
    made_by(older)
    assert walk() == 0
    assert "reuse=twin keeps it" in capsys.readouterr().err
    assert provenance(run)["source"] == facts["source"]


def test_mistakes(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for typed, said in (
        (["only=house_walk"], "only=house_walk has no accepted run with a twin"),
        (["only=house_wlak"], "did you mean 'house_walk'"),
        (["keep=maybe"], "keep=maybe must be one of no, yes"),
        (["jobs=0"], "jobs=0 must be a whole number from 1"),
    ):
        assert twins.main(typed) == 2
        assert said in capsys.readouterr().err
    assert twins.main(["--help"]) == 0
    assert "usage: python -m experiments.twins" in capsys.readouterr().out
