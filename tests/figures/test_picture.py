"""Pictures have few colours, the right ones, and the same bytes each time."""

import io
import types
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from PIL import Image

from circuitax.figures.picture import (
    add_title,
    described,
    draw_all,
    packed_picture,
    save_picture,
    save_vectors,
)
from circuitax.figures.style import new_figure, styled
from circuitax.records.table import FigureText, Table


def drawn() -> Figure:
    figure = Figure(figsize=(2, 1.5))
    ax = figure.add_axes((0, 0, 0.9, 1))
    ax.imshow(np.arange(400).reshape(20, 20), cmap="viridis", aspect="auto")
    return figure


def test_a_picture_has_few_colours_near_those_drawn(tmp_path: Path) -> None:
    figure = drawn()
    save_picture(figure, tmp_path / "few.png", dpi=100)
    figure.savefig(tmp_path / "all.png", dpi=100)
    few, every = Image.open(tmp_path / "few.png"), Image.open(tmp_path / "all.png")
    assert few.mode == "P" and few.size == every.size == (200, 150)
    np.testing.assert_allclose(few.info["dpi"], 100, rtol=1e-3)
    found, wanted = (np.asarray(picture.convert("RGB"), float) for picture in (few, every))
    error = np.abs(found - wanted)
    assert error.max() <= 24 and error.mean() < 1
    assert len(np.unique(np.asarray(few))) > 100
    np.testing.assert_array_equal(found[:, -5:], 255)


def test_pale_bands_on_each_other_keep_their_hues(tmp_path: Path) -> None:
    figure = Figure(figsize=(4, 3))
    ax, x = figure.add_axes((0, 0, 1, 1)), np.linspace(0, 9, 200)
    rng = np.random.default_rng(0)
    for i, colour in enumerate(("#9bd93c", "#22a785", "#2c718e", "#472d7b")):
        y = np.sin(x - i)
        ax.fill_between(x, y - 0.6, y + 0.6, color=colour, alpha=0.3, linewidth=0)
        for shift in np.linspace(-0.5, 0.5, 5):
            ragged = y + shift + rng.normal(scale=0.05, size=200)
            ax.plot(x, ragged, color=colour, linewidth=0.7)
    save_picture(figure, tmp_path / "few.png", dpi=150)
    figure.savefig(tmp_path / "all.png", dpi=150)
    few, every = (
        np.asarray(Image.open(tmp_path / name).convert("RGB"), float)
        for name in ("few.png", "all.png")
    )
    assert np.abs(few - every).max() <= 15


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one.png", "two.png"):
        save_picture(drawn(), tmp_path / name, dpi=80)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_vectors_are_the_same_bytes_each_time_and_a_large_svg_is_left_out(
    tmp_path: Path,
) -> None:
    noise = Figure(figsize=(1.5, 1.5))
    noise.add_axes((0, 0, 1, 1)).imshow(np.random.default_rng(0).random((300, 300)))
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        save_vectors(drawn(), folder / "few.pdf", dpi=80)
        save_vectors(noise, folder / "noise.pdf", dpi=200)
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / f).iterdir()} for f in ("one", "two"))
    assert one == two and sorted(one) == ["few.pdf", "few.svg", "noise.pdf"]


def test_packing_takes_a_tenth_of_the_bytes_and_no_pixel(tmp_path: Path) -> None:
    save_picture(drawn(), tmp_path / "loose.png", dpi=80)
    packed = packed_picture(drawn(), dpi=80)
    assert packed == packed_picture(drawn(), dpi=80)
    loose = tmp_path / "loose.png"
    assert len(packed) < 0.9 * loose.stat().st_size
    with Image.open(io.BytesIO(packed)) as tight, Image.open(loose) as before:
        np.testing.assert_allclose(tight.info["dpi"], 80, rtol=1e-3)
        np.testing.assert_array_equal(
            np.asarray(tight.convert("RGB")), np.asarray(before.convert("RGB"))
        )


DPI = 150  # at which the style lays figures out
LONG = "Heads that read what earlier heads wrote find an earlier text and continue it, as said"


def pixels(figure: Figure, message: str) -> np.ndarray:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, bbox_inches=add_title(figure, message))
    return np.asarray(Image.open(buffer).convert("L"))


@styled
def dots(width: float = 3.25) -> Figure:
    figure, axes = new_figure(width=width)
    axes[0, 0].plot([1, 2, 4])
    figure.legend(["a line"], loc="outside upper center")
    figure.supxlabel("below")
    return figure


def test_panels_stay_and_the_strip_holds_all_words() -> None:
    plain, short, long = (pixels(dots(), text) for text in ("", "Dots rise", LONG))
    strips = [len(picture) - len(plain) for picture in (short, long)]
    assert plain.shape[1] == short.shape[1] == long.shape[1] == 487
    for picture, strip in zip((short, long), strips, strict=True):
        # Hinting may move the edge of a letter by a shade.
        assert np.abs(picture[strip:].astype(int) - plain).mean() < 0.2
        ink = picture[:strip] < 128
        assert ink.any() and not ink[:, -3:].any() and not ink[:, :3].any()
        assert not ink[0].any() and not ink[-1].any(), "no line is cut"
    assert strips[1] > 1.5 * strips[0], "two lines or more"
    wide = pixels(dots(6.75), LONG)
    assert len(wide) - len(pixels(dots(6.75), "")) == strips[0]


TABLE = Table(
    title="T",
    message="M.",
    figures=(
        FigureText("dots", "Dots lie on a line."),
        FigureText("lines", "Lines cross.", draw="crossing", needs=("slope",)),
        FigureText("steps", "Steps fall.", draw="dots", needs=("step",)),
        FigureText("cells", "Cells differ.", draw="dots", of_sweep=True),
    ),
)


def module():
    found = types.ModuleType("readings")

    def dots(data: xr.Dataset) -> Figure:
        """Every unit as a dot,
        one above another.

        More is not said.
        """
        figure = Figure()
        figure.add_subplot().plot(data.x, ".")
        return figure

    found.dots = dots
    return found


def test_only_figures_whose_data_are_there_are_drawn():
    data = xr.Dataset({"x": ("step", np.arange(3.0))})
    assert list(draw_all(TABLE, module(), data)) == ["dots", "steps"]
    assert list(draw_all(TABLE, module(), data.rename(step="unit"))) == ["dots"]
    assert list(draw_all(TABLE, module(), data, of_sweep=True)) == ["cells"]


def test_the_picture_is_described_by_the_first_paragraph():
    assert described(TABLE.figures[0], module()) == "Every unit as a dot, one above another."
