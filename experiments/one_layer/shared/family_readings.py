"""A family of models of one text, read: losses, their gaps, and the gain from more text."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from circuitax.figures.marks import (
    interval_bars,
    legend_above,
    mean_curve,
    reference_line,
    seed_column,
    tilted_labels,
)
from circuitax.figures.style import (
    BLACK,
    DEPTH_COLOURS,
    PINK,
    SKY,
    YELLOW,
    letter_panels,
    new_figure,
    sample_note,
)
from circuitax.records.estimate import mean_estimate
from circuitax.records.sample import Absent, NotRun, Sample, mean_of, members_where

# Times the longest training, up to which the law through the ends is drawn.
BEYOND = 4
TABLE_STYLES = {"unigram": "dotted", "bigram": "dashed", "trigram": "solid"}
COLOURS = (*DEPTH_COLOURS[:3], PINK, SKY, YELLOW)  # 0, 1 and 2 layers, then with MLPs


# Beyond these an exponent cannot be told from a straight line in log tokens, or from a step.
EXPONENTS = (0.02, 4.0)


class LearningLaw(NamedTuple):
    """``loss = limit + gain (tokens / last)^-exponent``, where ``last`` is the longest training."""

    limit: float
    gain: float
    exponent: float
    last: float

    def at(self, tokens: ArrayLike) -> np.ndarray:
        """The predicted loss, nats."""
        share = np.asarray(tokens, float) / self.last
        return np.asarray(self.limit + self.gain * share**-self.exponent)

    @property
    def next_doubling(self) -> float:
        """The predicted gain of twice the tokens beyond the longest training, nats."""
        return self.gain * (1 - 2**-self.exponent)


def fitted_law(tokens: ArrayLike, losses: ArrayLike) -> LearningLaw:
    """The least-squares law of some losses, with a gain of 0 or more.

    For a given exponent the law is linear in the other two numbers, so that the fit is a search
    over the exponent alone, within `EXPONENTS`.

    Args:
        tokens: Length of each training, positive, at least three different ones.
        losses: What each ended at, nats.

    Raises:
        ValueError: If there are fewer than three lengths, or not one loss for each.
    """
    x, y = np.asarray(tokens, float), np.asarray(losses, float)
    if x.shape != y.shape or len(np.unique(x)) < 3:
        raise ValueError(
            f"tokens has shape {x.shape} with {len(np.unique(x))} different lengths, must have at "
            f"least three and the shape of losses, {y.shape}"
        )
    last = x.max()

    def linear(exponent: float) -> tuple[float, float, float]:
        power = (x / last) ** -exponent
        centred = power - power.mean()
        gain = max(float(centred @ y / (centred @ centred)), 0.0)
        limit = float(y.mean() - gain * power.mean())
        return float(((limit + gain * power - y) ** 2).sum()), limit, gain

    # On a grid first: the error may have several valleys.
    grid = np.geomspace(*EXPONENTS, 60)
    best = int(np.argmin([linear(float(exponent))[0] for exponent in grid]))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    exponent = float(minimize_scalar(lambda e: linear(e)[0], bounds=ends, method="bounded").x)
    _, limit, gain = linear(exponent)
    return LearningLaw(limit, gain, exponent, float(last))


def last_losses(data: xr.Dataset, model: str) -> np.ndarray:
    """Held-out loss of each seed of a model that stayed finite."""
    if "model" not in data.dims or model not in data.model.values:
        raise NotRun(f"this run has no model {model}")
    members = members_where(data.sel(model=model))
    return np.asarray(members.loss_by_position.mean("position").values)


def length_losses(data: xr.Dataset, model: str) -> np.ndarray:
    """Last losses ``[length, seed]`` of the seeds that stayed finite at every length."""
    losses = data.length_loss.sel(model=model).transpose("length", "seed").values
    return np.asarray(losses[:, np.isfinite(losses).all(axis=0)])


def doubling(data: xr.Dataset, model: str, which: str = "last") -> Sample:
    """Nats that training for twice the tokens gained, the last or the first time."""
    if "model" not in data.dims:
        raise NotRun("the text is not at hand")
    losses = length_losses(data, model)
    if len(losses) < 2 or not losses.size:
        raise Absent("no seed stayed finite at two lengths")
    long, short = (0, 1) if which == "last" else (-2, -1)
    return mean_of(losses[short] - losses[long])


def learning_laws(data: xr.Dataset, model: str) -> list[LearningLaw]:
    """The law of each seed; none where there are fewer than three lengths."""
    tokens = data.length.values
    if len(tokens) < 3:
        return []
    return [fitted_law(tokens, losses) for losses in length_losses(data, model).T]


def training(data: xr.Dataset) -> Figure:
    """Held-out loss over training and against the length of training, and at the end, by seed."""
    figure, axes = new_figure(1, 3, height=3.0, width_ratios=[1.3, 1.1, 1])
    left, middle, right = axes[0]
    for i, (name, colour) in enumerate(_models(data)):
        members = members_where(data.sel(model=name))
        tokens = data.tokens.values / 1e6
        mean_curve(left, tokens, members.loss.values, colour, label=_label(name), marker=None)
        if name != "full":
            _ends_by_length(middle, data, name, colour)
        seed_column(right, i, last_losses(data, name), colour)
    for ax in (left, middle, right):
        for table, style in TABLE_STYLES.items():
            if table == "unigram" and ax is not left:
                continue  # far above all that is read there
            line = reference_line(ax, y=data[f"{table}_loss"], style=style)
            if ax is left:
                line.set_label(f"{table} table")
    left.set(xlabel="tokens seen, millions", ylabel="held-out loss, nats per token")
    left.set_title("along the longest training")
    middle.set_title("ends of trainings")
    _length_axis(middle, data)
    right.set_title("ends of the longest")
    tilted_labels(right, [_label(n) for n, _ in _models(data)])
    right.margins(y=0.12)
    letter_panels(axes[0])
    # Below the unigram table, where all that is learned from neighbours is seen.
    left.set_ylim(top=max(float(data.unigram_loss), float(data.loss[:, -1].max())) + 0.3)
    legend_above(figure, left, columns=4)
    counts = sorted({int(n) for n in data.alive.sum("member").values})
    n = " or ".join(map(str, counts))
    sample_note(
        figure,
        f"means and 95 % intervals of {n} seeds, in b of {data.sizes['seed']}; dashed in b: a "
        "power law, extrapolated",
    )
    return figure


def _ends_by_length(ax: Axes, data: xr.Dataset, model: str, colour: str) -> None:
    """Last losses of one model by the length of training, and the mean of the laws of its seeds."""
    lengths, losses = data.length.values, length_losses(data, model)
    if not losses.size:
        return
    interval_bars(ax, lengths / 1e6, [mean_estimate(row) for row in losses], colour=colour, fmt="o")
    if laws := learning_laws(data, model):
        tokens = np.geomspace(lengths.min(), BEYOND * lengths.max(), 60)
        law = np.mean([law.at(tokens) for law in laws], axis=0)
        inside = tokens <= lengths.max()
        ax.plot(tokens[inside] / 1e6, law[inside], color=colour)
        ax.plot(tokens[~inside] / 1e6, law[~inside], color=colour, linestyle="--")


def _length_axis(ax: Axes, data: xr.Dataset) -> None:
    """A logarithmic axis with one tick for each length, and beyond where a law is drawn."""
    ax.set(xlabel="tokens of a whole training, millions", xscale="log")
    lengths = data.length.values / 1e6
    beyond = lengths[0] * np.array([2, BEYOND]) if len(lengths) > 2 else []
    places = [*lengths[::-1], *beyond]
    ax.set_xticks(places, [f"{place:.2g}" for place in places])
    ax.minorticks_off()


def positions(data: xr.Dataset) -> Figure:
    """Nats saved by context at each position, against the zero-layer models on the same texts."""
    figure, axes = new_figure(1, 2, height=2.4)
    for ax, variable in zip(axes[0], ("loss_by_position", "repeats_by_position"), strict=True):
        without = members_where(data.sel(model="layers-0"))[variable].mean("member")
        for name, colour in _models(data)[1:]:
            saved = without - members_where(data.sel(model=name))[variable]
            values = saved.transpose("position", "member").values
            mean_curve(ax, data.position.values, values, colour, label=_label(name))
        ax.axhline(0, color=BLACK, linewidth=0.6, linestyle=":")
        ax.set(xlabel="index of the token predicted", xscale="log")
    axes[0, 0].set(ylabel="nats saved over zero layers", title="held-out text")
    axes[0, 1].set_title("random tokens, repeated")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    letter_panels(axes[0])
    sample_note(figure, f"mean and 95 % interval of {data.sizes['member']} seeds")
    return figure


def _models(data: xr.Dataset) -> list[tuple[str, str]]:
    return [(str(n), c) for n, c in zip(data.model.values, COLOURS, strict=False)]


def _label(name: str) -> str:
    if name == "full":
        return "2, with MLPs"
    n = name.removeprefix("layers-")
    return "1 layer" if n == "1" else f"{n} layers"
