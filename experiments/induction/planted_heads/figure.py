"""Evaluators of heads order planted heads by their strength, but a ReLU hides heads that erase."""

import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, mean_curve, zero_line
from circuitax.figures.palette import BLUE, DIVERGING, ORANGE, SEQUENTIAL
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import COLUMN, letter_panels, new_figure, sample_note
from circuitax.records.record import Record

PANELS = (
    ("eigenvalues", "raised", "planted_copying", "OV eigenvalue score", "copying, share raised"),
    ("qk_trace", "prefix", "planted_matching", "trace of the QK circuit", "prefix matching"),
)


def scores(record: Record) -> Figure:
    """Behaviour against weights, for copying and for matching."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.6)
    for ax, (x, y, strength, below, beside) in zip(axes[0], PANELS, strict=True):
        signed = strength == "planted_copying"
        colours = {
            "vmin": -1 if signed else 0,
            "vmax": 1,
            "cmap": DIVERGING if signed else SEQUENTIAL,
        }
        values = (data[name].values.ravel() for name in (x, y))
        dots = ax.scatter(
            *values,
            c=data[strength].values.ravel(),
            s=10,
            edgecolor="0.4",
            linewidth=0.3,
            **colours,
        )
        figure.colorbar(dots, ax=ax, label="planted strength")
        n = data.sizes["member"]
        ax.set(xlabel=below, ylabel=beside, title=f"{data[x].size} heads of {n} models")
    letter_panels(axes[0])
    return figure


def erasing(record: Record) -> Figure:
    """Both scores of copying over the strength that was planted."""
    data = record.data
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.6)
    ax = axes[0, 0]
    order = np.argsort(data.planted_copying.values, axis=1)
    strength = np.sort(data.planted_copying.values, axis=1)[0]
    for name, label, colour, mark in (
        ("cosine", "cosine with attention", BLUE, "o"),
        ("raised", "share of a ReLU (paper)", ORANGE, "s"),
    ):
        rows = np.take_along_axis(data[name].values, order, axis=1).T
        mean_curve(ax, strength, rows, colour, label=label, marker=mark)
    zero_line(ax)
    ax.set(xlabel="planted strength of copying", ylabel="score of copying")
    legend_above(figure, ax, columns=2)
    sample_note(figure, f"mean and 95 % interval of {len(order)} models")
    return figure


def offsets(record: Record) -> Figure:
    """A grid of the offset asked for against the offset looked at, brighter with attention."""
    mean = record.data.at_offset.mean("member").values
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.8)
    ax = axes[0, 0]
    image = ax.imshow(mean, vmin=0, vmax=1, cmap=SEQUENTIAL, origin="lower")
    figure.colorbar(image, ax=ax, label="mean attention", shrink=0.85)
    ax.set(xlabel="tokens back", ylabel="offset that the head asks for")
    sample_note(figure, f"mean of {record.data.sizes['member']} models")
    return figure


FIGURES = (
    FigureSpec(
        "scores",
        scores,
        message="Scores on random tokens rank heads as their weights do.",
        caption="Each dot is a head of a model; colours are the planted strengths.",
        refuted="Refuted if the dots of a panel do not rise from left to right.",
    ),
    FigureSpec(
        "erasing",
        erasing,
        message="The copying share after a ReLU is small for all heads that erase the tokens they "
        "attend to; a cosine separates them.",
        refuted="Refuted if both rise alike over negative strengths.",
    ),
    FigureSpec(
        "offsets",
        offsets,
        message="A head can attend to any offset through sinusoidal positions.",
        refuted="Mean attention by offset; refuted if the brightest cell of a row is off the "
        "diagonal.",
    ),
)
