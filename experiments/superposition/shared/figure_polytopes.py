"""Drawings of features as vectors: arrows in a plane, polytopes, and sets that turn in space."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from circuitax.figures.marks import reference_line
from circuitax.figures.palette import BLUE, GREEN, GREY, POLYTOPE_COLOURS
from experiments.superposition.shared.random_weights import dimensionalities

SET = 3  # features of a set that turns
# Columns: right and up on the page, for eyes a little above and beside the first axis.
VIEW = np.array([[0.94, -0.1], [-0.34, -0.28], [0, 0.95]])
_WIDE, _HIGH = 0.8595, 0.5111  # of a square antiprism of equal edges: radius, half of its height


def _ring(corners: int) -> np.ndarray:
    angles = 2 * np.pi * np.arange(corners) / corners
    return np.stack([np.sin(angles), np.cos(angles)], axis=1)


VERTICES = {
    "tetrahedron": np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3),
    "triangle": _ring(3),
    "digon": np.array([[-1, 0], [1, 0]]),
    "pentagon": _ring(5),
    "square antiprism": np.column_stack([_WIDE * _ring(8), np.tile([_HIGH, -_HIGH], 4)]),
}


def arrows(ax: Axes, W: np.ndarray, colours: Sequence[Any], **line: Any) -> None:
    """Columns of W from the origin, the first one on top."""
    how: dict[str, Any] = {"marker": "o", "markevery": [1], "markersize": 2, "linewidth": 1.3}
    for column, colour in list(zip(W.T, colours, strict=True))[::-1]:
        ax.plot(*np.stack([0 * column, column], axis=1), color=colour, **how | line)
    ax.set(aspect="equal", xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def polytopes_beside(ax: Axes, lines: Mapping[str, tuple[str, float]]) -> None:
    """Polytopes right of a panel, with an edge between nearest vertices; each has a height on it.

    ``lines`` has a text and a height by the name of a polytope, the highest first.
    """
    for place, (name, (text, height)) in enumerate(lines.items()):
        at = 0.9 - 0.2 * place  # of the axes: the lines are too near each other for pictures
        where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center"}
        pointer = {"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 0}
        there = {"textcoords": "axes fraction", "arrowprops": pointer, "fontsize": 7}
        ax.annotate(text, (1.0, height), (1.11, at), **where | there)
        picture = ax.inset_axes((1.17, at - 0.1, 0.19, 0.2))
        vertices = VERTICES[name]
        flat = vertices @ VIEW if vertices.shape[1] == 3 else vertices
        apart = np.linalg.norm(vertices[:, None] - vertices, axis=-1)
        edges = np.triu((apart > 0) & (apart < 1.1 * apart[apart > 0].min()))
        for pair in np.argwhere(edges):
            picture.plot(*flat[pair].T, color=POLYTOPE_COLOURS[name], linewidth=0.8)
        picture.plot(*flat.T, "o", color=POLYTOPE_COLOURS[name], markersize=2)
        picture.set(aspect="equal", xlim=(-1.15, 1.15), ylim=(-1.15, 1.15))
        picture.set_axis_off()


def turning_sets(figure: SubFigure, W: np.ndarray, titles: Sequence[str]) -> None:
    """Two sets of three features in space, ``W [time, 3, 6]``, each with its triangle.

    All are seen alike, from where the last is an octahedron with its vertices on the axes.
    """
    left, _, right = np.linalg.svd(W[-1, :, :SET])
    axes = figure.subplots(1, len(W), squeeze=False)[0]
    for ax, at, title in zip(axes, range(len(W)), titles, strict=True):
        flat = (left @ right @ VIEW).T @ W[at]
        for own, colour in ((flat[:, :SET], BLUE), (flat[:, SET:], GREEN)):
            ax.fill(*own, color=colour, alpha=0.25, linewidth=0)
            arrows(ax, own, [colour] * SET, linewidth=0.6, markersize=3)
        if at == len(W) - 1:  # edges go from a vertex to all of the other set but its antipode
            across = W[at, :, :SET].T @ W[at, :, SET:]
            for i, j in np.argwhere(across > across.min(axis=1, keepdims=True)):
                ax.plot(*flat[:, [i, SET + j]], color=GREY, linewidth=0.6)
        ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), title=title)


def dimensions_over_points(ax: Axes, x: np.ndarray, one: xr.Dataset) -> None:
    """Dimensionality of each feature and each sample of one training set of every size."""
    samples = [dimensionalities(v.dropna("shown").values) for v in one.shown_vectors]
    kinds = (BLUE, "features", dimensionalities(one.W.values)), (GREEN, "samples", samples)
    for colour, name, each in kinds:
        at = np.repeat(x, [len(values) for values in each])
        ax.plot(at, np.concatenate(each), ".", color=colour, alpha=0.5, label=name)
    ax.plot(x, 2 / x, color=GREEN, linewidth=0.7, label="$2/T$: every sample alike")
    reference_line(ax, y=2 / 5, colour=BLUE, label="2/5: a pentagon of features")
