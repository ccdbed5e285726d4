"""Figures come from the record on disk, the same bytes every time."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from PIL import Image

from circuitax.config.catalogue import OF_SWEEPS, VARIABLE, ExperimentEntry
from circuitax.lab.drawing import draw_figures, up_to_date
from circuitax.lab.times import COMPILING, DRAWING, keep_time, times_of
from circuitax.records.record import Record

HOUSE = Path(__file__).parent.parent / "house"


def entry_of(folder: Path) -> ExperimentEntry:
    return ExperimentEntry(
        folder.name, folder.name, folder, folder.parent / "conf", "", (), 1.0, 1.0, None
    )


def written(folder: Path, text: str) -> ExperimentEntry:
    """An experiment of its own name whose figure file has this text."""
    folder.mkdir(exist_ok=True)
    (folder / "figure.py").write_text(text)
    return entry_of(folder)


WALK = entry_of(HOUSE / "house_walk")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    position = np.arange(12.0).reshape(2, 2, 3)
    Record(xr.Dataset({"position": (("chunk", "rate", "member"), position)})).save(tmp_path)
    return tmp_path


def test_figures_are_the_same_bytes_again(run: Path) -> None:
    module = WALK
    assert not up_to_date(run, module)
    (png,) = draw_figures(run, module)
    first = {path.name: path.read_bytes() for path in (run / "figures").iterdir()}
    assert set(first) == {"path.png", "path.pdf", ".source"} and png.name == "path.png"
    assert up_to_date(run, module)
    draw_figures(run, module)
    assert {path.name: path.read_bytes() for path in (run / "figures").iterdir()} == first
    assert b"CreationDate" not in first["path.pdf"]
    assert b"/Type3" not in first["path.pdf"] and b"/CIDFontType2" in first["path.pdf"]


def test_the_time_of_drawing_is_kept(run: Path) -> None:
    assert times_of(run) == {}
    keep_time(run, COMPILING, 1.234)
    began = time.monotonic()
    draw_figures(run, WALK)
    kept = times_of(run)
    assert kept[COMPILING] == 1.23 and 0 < kept[DRAWING] <= time.monotonic() - began + 0.01
    (run / "times.json").write_text("{")
    assert times_of(run) == {}, "a damaged file is as none"


def test_a_changed_module_is_noticed_and_a_failure_keeps_the_old(run: Path, tmp_path: Path) -> None:
    draw_figures(run, WALK)
    failing = DECLARED.replace("return Figure((3, 2))", "raise RuntimeError")
    broken = written(tmp_path / "broken_one", failing)
    assert not up_to_date(run, broken)
    with pytest.raises(RuntimeError):
        draw_figures(run, broken)
    assert (run / "figures" / "path.png").exists()


DECLARED = '''"""Dots."""
from matplotlib.figure import Figure
from circuitax.figures.spec import FigureSpec
def dots(record):
    return Figure((3, 2))
def has_walked(record):
    return "position" in record.data
def has_run(record):
    return "speed" in record.data
FIGURES = (
    FigureSpec("dots", dots, message="The dots lie on a line.", where=has_walked),
    FigureSpec("untold", dots, message=""),
    FigureSpec("fast", dots, message="Not drawn.", where=has_run),
)
'''


def test_the_message_stands_above_the_figure(run: Path, tmp_path: Path) -> None:
    titled = written(tmp_path / "titled", DECLARED)
    drawn = draw_figures(run, titled)
    assert [path.stem for path in drawn] == ["dots", "untold"], "where a record has what is drawn"
    sizes = {}
    for name in ("dots", "untold"):
        with Image.open(run / "figures" / f"{name}.png") as picture:
            sizes[name] = picture.size
    (width, height), (plain_width, plain) = sizes["dots"], sizes["untold"]
    assert width == plain_width == 900 and plain == 600 and height > 630
    assert up_to_date(run, titled)
    written(tmp_path / "titled", DECLARED.replace("The dots", "All dots"))
    assert not up_to_date(run, titled), "another message, another title"


def test_no_module_no_figure(run: Path) -> None:
    assert draw_figures(run, entry_of(run / "absent")) == []
    assert up_to_date(run, entry_of(run / "absent"))


def test_figures_of_a_sweep_are_optional(run: Path, tmp_path: Path) -> None:
    assert draw_figures(run, WALK, OF_SWEEPS) == []
    sweeping = DECLARED.replace("FIGURES", OF_SWEEPS)
    Record(xr.Dataset({"time": 1.0})).save(run)
    none = sweeping.partition(", where=has_walked")[0] + ", where=has_walked),)\n"
    module = written(tmp_path / "sweeping_none", none)
    assert draw_figures(run, module, OF_SWEEPS) == [] and not (run / "figures").exists()
    module = written(tmp_path / "sweeping", sweeping)
    assert draw_figures(run, module, OF_SWEEPS) == [run / "figures" / "untold.png"]


def test_drawing_needs_no_jax(run: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from circuitax.lab.drawing import draw_figures\n"
        "from circuitax.config.catalogue import discover\n"
        "draw_figures(Path(sys.argv[1]), discover()['house_walk'])\n"
        "import experiments.render, circuitax.lab.pages\n"
        "sys.exit('jax' in sys.modules or 'flax' in sys.modules)"
    )
    environment = os.environ | {VARIABLE: str(HOUSE)}
    subprocess.run([sys.executable, "-c", code, str(run)], env=environment, check=True)
