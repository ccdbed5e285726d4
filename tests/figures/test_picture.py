"""Pictures have few colours, the right ones, and the same bytes each time."""

import io
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from circuitax.figures.picture import packed_picture, save_picture


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
