"""Figures look alike and are saved to the same bytes twice."""

from pathlib import Path

import numpy as np

from circuitax.figures.style import letter_panels, new_figure, save_figure


def draw(seed: int):
    figure, axes = new_figure(1, 2, height=1.5)
    axes[0, 0].plot(np.random.default_rng(seed).normal(size=20))
    axes[0, 1].imshow(np.eye(3), rasterized=True)
    letter_panels(axes.flat)
    return figure


def test_saved_bytes_depend_on_the_content_only(tmp_path: Path) -> None:
    first = save_figure(draw(0), tmp_path / "a", "figure")
    second = save_figure(draw(0), tmp_path / "b", "figure")
    other = save_figure(draw(1), tmp_path / "c", "figure")
    for one, two, three in zip(first, second, other, strict=True):
        assert one.read_bytes() == two.read_bytes()
        assert one.read_bytes() != three.read_bytes()


def test_axes_are_always_a_grid() -> None:
    for shape in [(1, 1), (1, 3), (2, 2)]:
        _, axes = new_figure(*shape)
        assert axes.shape == shape
