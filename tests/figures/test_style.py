"""Figures look alike: a grid of axes, and texts in the style of the house."""

import numpy as np

from circuitax.figures.style import letter_panels, new_figure, styled


@styled
def draw(seed: int):
    figure, axes = new_figure(1, 2, height=1.5)
    axes[0, 0].plot(np.random.default_rng(seed).normal(size=20))
    axes[0, 1].imshow(np.eye(3), rasterized=True)
    letter_panels(axes.flat)
    return figure


def test_axes_are_always_a_grid() -> None:
    for shape in [(1, 1), (1, 3), (2, 2)]:
        _, axes = new_figure(*shape)
        assert axes.shape == shape


def test_the_style_holds_for_texts_made_after_the_axes() -> None:
    figure = draw(0)
    assert figure.axes[0].annotate("late", (0, 0)).get_fontsize() != 8  # outside: the default
    sizes = []

    @styled
    def inside() -> None:
        _, axes = new_figure()
        sizes.append(axes[0, 0].annotate("in style", (0, 0)).get_fontsize())

    inside()
    assert sizes == [8]
