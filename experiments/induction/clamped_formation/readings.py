"""Clamped formation: plateaus, dates of parts, what heads share, and the figure."""

from functools import partial

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import interval_bars, mean_curve
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.record import members_where
from circuitax.records.sample import Sample, difference_of, mean_of, resampled, share_of

PARTS = ("previous", "matching", "copying")
COLOURS = {"previous": BLUE, "matching": ORANGE, "copying": GREEN}
LEFT = {left: ", ".join(part for part in PARTS if part != left) for left in PARTS}
ALL = ", ".join(PARTS)
ARMS = (("more classes: ", 0.25, ORANGE), ("more labels: ", -0.25, GREEN))
# Loss of a guess between the two labels of a text, nats; it is a plateau to within 15 %.
GUESS, BAND = np.log(2), 0.15
INDUCTION = 0.25  # from so much more attention to the right label a head does induction
WORKS = 0.6  # from so many right answers a pair of heads works; a guess has half


def solved(data: xr.Dataset, cell: str, than: str = "") -> Sample:
    """Tokens until the loss is half of that of a guess between two labels; how many less than."""
    here = _solved(data, cell)
    return difference_of(_solved(data, than), here) if than else mean_of(here)


def over_half(data: xr.Dataset, cell: str) -> Sample:
    """Length of the plateau of guesses, less half of that with nothing given, tokens."""
    return difference_of(_plateau(data, cell), _plateau(data, "nothing") / 2)


def there(data: xr.Dataset, part: str, before: str = "") -> Sample:
    """Tokens until a part is half there in models given nothing, less those of another part."""
    other = _date(data, _skill(data, before)) if before else 0
    return mean_of(_date(data, _skill(data, part)) - other)


def product_late(data: xr.Dataset, of: str) -> Sample:
    """Tokens until a product of three curves is half done, less those of the joint curve.

    ``of="parts"``: of the parts of the models themselves, each with the two others given when it
    is measured. ``of="trainings"``: of mean curves of models that were given the two others.
    """
    joint = _date(data, _progress(data, _loss(data, "nothing"), GUESS))
    if of == "parts":
        product = np.prod([_skill(data, part) for part in PARTS], axis=0)
        return mean_of(_date(data, product) - joint)
    apart = [_progress(data, _loss(data, LEFT[part])) for part in PARTS]

    def late(i: np.ndarray, *chosen: np.ndarray) -> float:
        means = [curve[:, j].mean(axis=1) for curve, j in zip(apart, chosen, strict=True)]
        return float(_date(data, np.prod(means, axis=0)[:, None])[0] - joint[i].mean())

    return resampled(late, len(joint), *(curve.shape[1] for curve in apart))


def heads(data: xr.Dataset, of: str, when: str = "end") -> Sample:
    """Of heads of layer 2: how many do induction, right answers a second adds, and without one."""
    here = _cell(data, "nothing").sel(when=when)
    second = here.kept.sel(count=2) - here.kept.sel(count=1)
    number = (here.strength > INDUCTION).sum("head")
    return mean_of({"number": number, "second": second, "without": here.without}[of])


def many_to_many(data: xr.Dataset, when: str = "end") -> Sample:
    """Share of models in which one head of layer 1 works alone with two of layer 2, and back."""
    works = _cell(data, "nothing").sel(when=when).pair > WORKS
    forth = (works.sum("head") >= 2).any("first")
    return share_of(forth & (works.sum("first") >= 2).any("head"))


def _cell(data: xr.Dataset, cell: str) -> xr.Dataset:
    return members_where(data.sel(cell=cell, drop=True))


def _loss(data: xr.Dataset, cell: str) -> np.ndarray:
    return _cell(data, cell).loss.transpose("step", "member").values


def _solved(data: xr.Dataset, cell: str) -> np.ndarray:
    """Models that do not come there count with the last measurement, less than they need."""
    return _date(data, (_loss(data, cell) < GUESS / 2).astype(float))


def _plateau(data: xr.Dataset, cell: str) -> np.ndarray:
    """Tokens between measurements in which the loss is that of a guess."""
    here = abs(_loss(data, cell) / GUESS - 1) < BAND
    return here[1:].T.astype(float) @ np.diff(data.tokens.values)


def _skill(data: xr.Dataset, part: str) -> np.ndarray:
    """Progress ``[step, member]`` of a part in models to which nothing is given."""
    loss = _cell(data, "nothing").part_loss.sel(left=part)
    return _progress(data, loss.transpose("step", "member").values)


def _progress(data: xr.Dataset, loss: np.ndarray, start: float | None = None) -> np.ndarray:
    """Share of the way from a loss, by default the mean first one, to that with all parts given."""
    floor, start = _loss(data, ALL).mean(), loss[0].mean() if start is None else start
    return np.clip((start - loss) / (start - floor), 0, 1)


def _date(data: xr.Dataset, done: np.ndarray) -> np.ndarray:
    """Tokens at the first measurement of each column that is half done; the last if none is."""
    half = done >= 0.5
    half[-1] = True
    return data.tokens.values[half.argmax(axis=0)].astype(float)


def formation(data: xr.Dataset) -> Figure:
    """Losses with parts given; parts inside models that are given none; tokens until solved."""
    figure, axes = new_figure(1, 3, height=2.8, width_ratios=(1, 1, 1.1))
    draw, x = partial(mean_curve, x=data.tokens / 1000), "thousand tokens"
    for cell, colour in {"nothing": BLACK, **COLOURS, "previous, copying": GREY}.items():
        draw(axes[0, 0], rows=_loss(data, cell), colour=colour, label=cell)
    axes[0, 0].axhline(GUESS, color=GREY, linewidth=0.6, linestyle=":")
    axes[0, 0].set(title="given in training", ylabel="loss, nats", ylim=(0, None), xlabel=x)
    parts = {part: _skill(data, part) for part in PARTS}
    parts["all together"] = _progress(data, _loss(data, "nothing"), GUESS)
    for part, rows in parts.items():
        draw(axes[0, 1], rows=rows, colour=COLOURS.get(part, BLACK), label=part)
    axes[0, 1].set(title="there, nothing given", ylabel="progress", ylim=(0, 1.45), xlabel=x)
    places = {cell: -i for i, cell in enumerate(("nothing", *PARTS, *LEFT.values()))}
    for arm, shift, colour in (("", 0, BLACK), *ARMS):
        cells = [cell for cell in places if arm + cell in data.cell.values]
        found = [solved(data, arm + cell).estimate() for cell in cells]
        bars = partial(interval_bars, horizontal=True, fmt="o", markersize=3, colour=colour)
        heights = [places[cell] + shift for cell in cells]
        bars(axes[0, 2], heights, found, label=arm.strip(": ") or "plain")
    axes[0, 2].set_yticks(list(places.values()), [c.replace(", ", ",\n") for c in places])
    axes[0, 2].set(title="until half of a guess's loss", xlabel="tokens", ylabel="given")
    for ax in axes.flat:
        ax.legend(fontsize=6)
    letter_panels(axes.flat)
    sample_note(figure, f"mean and 95 % interval of {data.sizes['member']} seeds")
    return figure
