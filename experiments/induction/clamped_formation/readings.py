"""Clamped formation: plateaus, dates of parts, what heads share, and the figure."""

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import interval_bars, legend_above, mean_curve
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.members import members_where
from circuitax.records.sample import Absent, Sample, difference_of, mean_of, resampled, share_of

PARTS = ("previous", "matching", "copying")
COLOURS = {"previous": BLUE, "matching": ORANGE, "copying": GREEN}
# Given all but one part: what is left to learn.
LEFT = {
    "previous": "matching, copying",
    "matching": "previous, copying",
    "copying": "previous, matching",
}
ALL = ", ".join(PARTS)
# Loss of a guess between the two labels of a text, nats; it is a plateau to within 15 %.
GUESS, BAND = np.log(2), 0.15
# A head does induction from so much attention to the right label above the wrong one; a pair of
# heads works from so many right answers, where a guess between the two labels has half.
INDUCTION, WORKS = 0.25, 0.6


def solved(data: xr.Dataset, cell: str) -> Sample:
    """Tokens until the loss is half of that of a guess between the two labels."""
    return mean_of(_solved(data, cell))


def saved(data: xr.Dataset, cell: str) -> Sample:
    """Tokens until that, where nothing is given less with parts given."""
    return difference_of(_solved(data, "nothing"), _solved(data, cell))


def later(data: xr.Dataset, arm: str, cell: str) -> Sample:
    """Tokens until that, with more classes or labels less without."""
    return difference_of(_solved(data, f"more {arm}: {cell}"), _solved(data, cell))


def plateau_left(data: xr.Dataset, cell: str) -> Sample:
    """Length of the plateau of guesses with parts given, over that with nothing given."""
    with_parts, alone = _plateau(data, cell), _plateau(data, "nothing")
    if not alone.any():
        raise Absent("no model waits at a guess")

    def ratio(i: np.ndarray, j: np.ndarray) -> float:
        return float(with_parts[i].mean() / alone[j].mean())

    return resampled(ratio, len(with_parts), len(alone))


def present(data: xr.Dataset, part: str) -> Sample:
    """Tokens until a part is half there, in models to which nothing is given."""
    return mean_of(_date(data, _skill(data, part)))


def first_before(data: xr.Dataset, first: str, second: str) -> Sample:
    """Tokens until one part is half there less those until another is, in the same models."""
    return mean_of(_date(data, _skill(data, first)) - _date(data, _skill(data, second)))


def product_late(data: xr.Dataset, of: str) -> Sample:
    """Tokens until a product of three curves is half done, less those of the joint curve.

    ``of="parts"``: of the parts of the models themselves, each with the two others given when it
    is measured. ``of="trainings"``: of mean curves of models that were given the two others.
    """
    joint = _date(data, _joint(data))
    if of == "parts":
        product = np.prod([_skill(data, part) for part in PARTS], axis=0)
        return mean_of(_date(data, product) - joint)
    apart = [_progress(data, _loss(data, LEFT[part])) for part in PARTS]

    def late(i: np.ndarray, *chosen: np.ndarray) -> float:
        means = [curve[:, j].mean(axis=1) for curve, j in zip(apart, chosen, strict=True)]
        return float(_date(data, np.prod(means, axis=0)[:, None])[0] - joint[i].mean())

    return resampled(late, len(joint), *(curve.shape[1] for curve in apart))


def induction_heads(data: xr.Dataset, when: str = "end") -> Sample:
    """Number of heads of layer 2 that attend more to the right label."""
    return mean_of((_heads(data, when).strength > INDUCTION).sum("head"))


def second_adds(data: xr.Dataset, when: str = "end") -> Sample:
    """Right answers with the two strongest heads of layer 2, less those with the strongest."""
    kept = _heads(data, when).kept
    return mean_of(kept.sel(count=2) - kept.sel(count=1))


def without_strongest(data: xr.Dataset, when: str = "end") -> Sample:
    """Right answers without the strongest head of layer 2."""
    return mean_of(_heads(data, when).without)


def many_to_many(data: xr.Dataset, when: str = "end") -> Sample:
    """Share of models in which one head of layer 1 works alone with two of layer 2, and back."""
    works = _heads(data, when).pair > WORKS
    forth, back = (
        (works.sum(dim) >= 2).any(rest) for dim, rest in (("first", "head"), ("head", "first"))
    )
    return share_of(forth & back)


def _cell(data: xr.Dataset, cell: str) -> xr.Dataset:
    members = data.sel(cell=cell, drop=True)
    return members_where(members, members.alive)


def _loss(data: xr.Dataset, cell: str) -> np.ndarray:
    return _cell(data, cell).loss.transpose("step", "member").values


def _heads(data: xr.Dataset, when: str) -> xr.Dataset:
    return _cell(data, "nothing").sel(when=when)


def _solved(data: xr.Dataset, cell: str) -> np.ndarray:
    """Models that do not come there count with the last measurement, less than they need."""
    return _date(data, (_loss(data, cell) < GUESS / 2).astype(float))


def _plateau(data: xr.Dataset, cell: str) -> np.ndarray:
    """Tokens between measurements in which the loss is that of a guess."""
    here = abs(_loss(data, cell) / GUESS - 1) < BAND
    return here[1:].T.astype(float) @ np.diff(data.tokens.values)


def _skill(data: xr.Dataset, part: str) -> np.ndarray:
    """Progress ``[step, member]`` of a part in models to which nothing is given."""
    members = _cell(data, "nothing").part_loss.sel(left=part)
    return _progress(data, members.transpose("step", "member").values)


def _progress(data: xr.Dataset, loss: np.ndarray) -> np.ndarray:
    """Share of the way from the mean loss at the start to that with all parts given."""
    start, floor = loss[0].mean(), _loss(data, ALL).mean()
    return np.clip((start - loss) / (start - floor), 0, 1)


def _joint(data: xr.Dataset) -> np.ndarray:
    """Share of the way from a guess between the two labels to all parts."""
    floor = _loss(data, ALL).mean()
    return np.clip((GUESS - _loss(data, "nothing")) / (GUESS - floor), 0, 1)


def _date(data: xr.Dataset, done: np.ndarray) -> np.ndarray:
    """Tokens at the first measurement of each column that is half done; the last if none is."""
    half = done >= 0.5
    half[-1] = True
    return data.tokens.values[half.argmax(axis=0)].astype(float)


def formation(data: xr.Dataset) -> Figure:
    """Losses with parts given; parts inside models that are given none; tokens until solved."""
    figure, axes = new_figure(1, 3, height=2.9, width_ratios=(1.1, 1, 1.1))
    thousands = data.tokens / 1000
    draw = partial(mean_curve, x=thousands)
    losses = {
        "nothing": (BLACK, "-"),
        "previous": (BLUE, "-"),
        "matching": (ORANGE, "-"),
        "copying": (GREEN, "-"),
        "previous, copying": (GREY, "--"),
    }
    for cell, (colour, line) in losses.items():
        draw(axes[0, 0], rows=_loss(data, cell), colour=colour, label=cell, linestyle=line)
    axes[0, 0].axhline(GUESS, color=GREY, linewidth=0.6, linestyle=":")
    axes[0, 0].set(title="given in training", ylabel="loss of the answer, nats", ylim=(0, None))
    for part, colour in COLOURS.items():
        draw(axes[0, 1], rows=_skill(data, part), colour=colour, label=part)
    draw(axes[0, 1], rows=_joint(data), colour=BLACK, label="all together")
    axes[0, 1].set(title="present, nothing given", ylabel="progress", ylim=(0, 1.05))
    for ax in axes[0, :2]:
        ax.set_xlabel("thousand tokens")
        ax.legend(fontsize=6)
    cells = ("nothing", *PARTS, *LEFT.values())
    rows = [solved(data, cell).estimate() for cell in cells]
    arms = {"classes": "s", "labels": "^"}
    heights = -np.arange(len(cells), dtype=float)
    interval_bars(axes[0, 2], heights, rows, horizontal=True, fmt="o", markersize=4, label="plain")
    for shift, (arm, marker) in zip((0.2, -0.2), arms.items(), strict=True):
        there = [i for i, cell in enumerate(cells) if f"more {arm}: {cell}" in data.cell.values]
        found = [solved(data, f"more {arm}: {cells[i]}").estimate() for i in there]
        interval_bars(
            axes[0, 2],
            heights[there] + shift,
            found,
            horizontal=True,
            fmt=marker,
            markersize=4,
            colour=COLOURS["matching" if arm == "classes" else "copying"],
            label=f"more {arm}",
        )
    axes[0, 2].set_yticks(heights, [c.replace(", ", ",\n") for c in cells], fontsize=6)
    axes[0, 2].set(title="until half of the guess's loss", xlabel="tokens", ylabel="given")
    legend_above(figure, axes[0, 2], columns=3)
    letter_panels(axes.flat)
    sample_note(figure, f"mean and 95 % interval of {data.sizes['member']} seeds")
    return figure
