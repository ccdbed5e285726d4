"""The poster's command: files beside the pages, and one line where there is nothing to show."""

from pathlib import Path

import pytest
from PIL import Image

from circuitax.commands import accept, poster


def test_files_are_written_from_accepted_runs(
    walk, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert poster.main([]) == 2
    assert "there is no accepted run" in capsys.readouterr().err
    assert walk() == 0
    assert accept.main(["dirty=yes"]) == 0
    assert poster.main([]) == 2, "none of its figures is there"
    assert "must hold at least one figure" in capsys.readouterr().err
    monkeypatch.setattr(poster, "SHOWN", (("absent", "path"), ("house_walk", "path")))
    monkeypatch.setattr(poster, "SCREEN", 20)
    assert poster.main([]) == 0
    with Image.open(results / "poster.png") as picture:
        assert picture.size == (468, 330)
    assert (results / "poster.pdf").stat().st_size > 10_000
    assert poster.main(["--help"]) == 0 and poster.main(["size=2"]) == 2
