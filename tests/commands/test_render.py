"""Figures again from disk."""

from collections.abc import Callable
from pathlib import Path

import pytest

from circuitax.commands import render
from circuitax.lab.runs import DERIVED, finished_runs
from circuitax.records.manifest import write_manifest


def test_figures_again(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk() == 0
    (run,) = finished_runs("house_walk")
    first = (run / "figures" / "path.png").read_bytes()
    for name in (str(run), f"house_walk/{run.name}", "house_walk"):
        (run / "figures" / "path.png").unlink()
        assert render.main([name]) == 0
        assert (run / "figures" / "path.png").read_bytes() == first
    assert "path.png" in capsys.readouterr().out


def test_what_fails_is_named(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk("fail=figure") == 1
    assert render.main(["house_walk"]) == 1
    assert "KeyError" in capsys.readouterr().err
    assert render.main(["nothing"]) == 2
    assert "RUN=nothing must be the folder of a finished run" in capsys.readouterr().err
    (run,) = finished_runs("house_walk")
    text = (run / "provenance.json").read_text()
    (run / "provenance.json").write_text(text.replace("house_walk", "gone"))
    assert render.main([str(run)]) == 2
    assert "must be whole, but provenance.json is damaged" in capsys.readouterr().err
    write_manifest(run, left_out=DERIVED)
    assert render.main([str(run)]) == 2
    said = capsys.readouterr().err
    assert "experiment=gone of " in said and "is not an experiment" in said
    assert "CIRCUITAX_EXPERIMENTS=FOLDER finds those of another folder" in said
    assert render.main(["--help"]) == 0 and render.main([]) == 2
