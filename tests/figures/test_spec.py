"""Figures are declared: texts, what draws them, and where."""

import re
from pathlib import Path

import pytest
import xarray as xr
from matplotlib import rcParams
from matplotlib.figure import Figure

from circuitax.config.catalogue import ExperimentEntry, discover
from circuitax.figures.spec import FigureSpec, draw_all
from circuitax.records.record import Record

GALLERY = Path(__file__).parents[2] / "results" / "gallery"
OWN = {name: e for name, e in discover().items() if e.package.startswith("experiments.")}


def dots(record: Record) -> Figure:
    """Dots over
    time.

    More.
    """
    return Figure((float(record.data.width), rcParams["font.size"]))


def test_what_a_record_has_is_drawn_in_the_common_style() -> None:
    specs = (
        FigureSpec("late", dots, "Late.", where=lambda record: "height" not in record.data),
        FigureSpec("never", dots, "Never.", where=lambda record: "height" in record.data),
        FigureSpec("early", dots, "Early."),
    )
    drawn = draw_all(specs, Record(xr.Dataset({"width": 3.5})))
    assert list(drawn) == ["late", "early"]
    assert tuple(drawn["late"].get_size_inches()) == (3.5, 8) != (3.5, rcParams["font.size"])
    assert specs[0].drawn == "Dots over time."


@pytest.mark.parametrize("name", sorted(OWN))
def test_figures_of_an_experiment_are_told(name: str) -> None:
    specs = OWN[name].load_figures()
    assert specs and len({spec.name for spec in specs}) == len(specs)
    for spec in specs:
        assert spec.message.endswith((".", "?")), spec.name
        assert len(spec.drawn) >= 25 and spec.drawn.endswith("."), spec.name


def test_three_figures_open_the_gallery() -> None:
    shown = [spec.name for entry in OWN.values() for spec in entry.load_figures() if spec.flagship]
    assert sorted(shown) == ["phase", "threshold", "training"]


def test_every_picture_of_the_gallery_is_declared() -> None:
    gallery = "\n".join(page.read_text("utf-8") for page in GALLERY.glob("*.md"))
    pictures = re.findall(r"^!\[(\w+), (\w+): ", gallery, re.MULTILINE)
    assert len(pictures) > 100
    declared = {(name, spec.name) for name, entry in OWN.items() for spec in entry.load_figures()}
    assert set(pictures) <= declared


def test_a_folder_may_have_no_figures(tmp_path: Path) -> None:
    assert (
        ExperimentEntry("no", "no", tmp_path, tmp_path, "", (), 1.0, 1.0, None).load_figures() == ()
    )
