"""Distance of the text models' recipe from its best, and the effect of each setting."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line, zero_line
from circuitax.figures.palette import BLACK, BLUE, DEPTH_COLOURS, GREEN, ORANGE, PINK
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import PAGE, headline, letter_panels, new_figure
from circuitax.records.record import Record
from experiments.one_layer.text_recipe.best import best_index
from experiments.one_layer.text_recipe.measures import (
    best_of,
    curve,
    measure,
    sweep_gains,
    sweep_losses,
)

# Colour, marker and line of each optimizer, so that nobody depends on colour.
LOOKS = {
    "adam": (BLUE, "o", "-"),
    "adamw": (ORANGE, "s", "--"),
    "muon": (GREEN, "^", "-."),
    "sgd": (PINK, "D", ":"),
}
NAMES = {"adam": "Adam", "adamw": "AdamW", "muon": "Muon", "sgd": "SGD with momentum"}
AXES = {
    "warmup": "steps of warm-up",
    "batch": "windows a step",
    "width": "width $d_{model}$",
    "init": "factor on initial maps",
}
WORDS = {"warmup": "warm-up", "batch": "batch", "width": "width", "init": "initialisation"}
MARKS = "os^Dv"  # of models of 0, 1, 2, ... layers
ROOM = 0.08  # nats above the highest of the optima, and between best and frame


def rates(record: Record) -> Figure:
    """A panel for each depth, a line for each optimizer, the best and the rate in use marked."""
    data, names = record.data, _models(record)
    figure, axes = new_figure(1, len(names), width=PAGE, height=3.0)
    optimizers = [str(name) for name in data.optimizer.values]
    for ax, name in zip(axes[0], names, strict=True):
        lowest = {}
        for optimizer in optimizers:
            colour, marker, style = LOOKS[optimizer]
            x, losses = curve(data, name, optimizer)
            kept = np.isfinite(losses).any(axis=1)
            how: dict[str, Any] = {"marker": marker, "markersize": 3, "linestyle": style}
            how |= {"label": NAMES[optimizer], "opacity": 0.2, "linewidth": 1}
            mean_curve(ax, x[kept], losses[kept], colour, **how)
            best = best_of(data, name, optimizer)
            lowest[optimizer] = best.loss.mean()
            rate = np.exp(np.log(best.rate).mean())
            ax.plot(rate, lowest[optimizer], "*", color=colour, markersize=8, markeredgecolor=BLACK)
        used = float(data.recipe_rate.sel(model=name))
        x, losses = curve(data, name, optimizers[0])
        at = losses[np.isclose(x, used)].mean()
        rim: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": BLACK, "markersize": 9}
        ax.plot(used, at, "o", **rim, label="rate in use")
        reference_line(ax, x=used)
        ax.set(xscale="log", xlabel="peak learning rate", title=_label(name))
        low, high = min(lowest.values()), max(lowest.values())
        ax.set_ylim(low - ROOM / 2, high + 2 * ROOM)
    axes[0, 0].set_ylabel("held-out loss, nats a token")
    axes[0, 0].plot([], [], "*", color="none", markeredgecolor=BLACK, markersize=8, label="best")
    letter_panels(axes[0])
    headline(figure, rates_message(record))
    _legend(figure, axes[0, 0], f"{_budget(record)}; stars: the best rate, by a parabola")
    return figure


def rates_message(record: Record) -> str:
    """Distance of the rates in use from the best, and other optimizers at their best rates."""
    found = measure(record).estimates
    names = _models(record)
    worst = max(found[f"recipe-rate-{name.removeprefix('layers-')}"].value for name in names)
    parts = [f"The rates in use lose at most {worst:.3f} nats to the best of those tried"]
    deepest = names[-1]
    for optimizer in map(str, record.data.optimizer.values[1:]):
        gain = found[f"recipe-{optimizer}-{deepest.removeprefix('layers-')}"].value
        way = "below" if gain > 0 else "above"
        parts.append(f"{NAMES[optimizer]} {abs(gain):.3f} {way}")
    if len(parts) == 1:
        return parts[0]
    return f"{parts[0]}; at its best, with {_label(deepest)}, {', '.join(parts[1:])} Adam"


def sweeps(record: Record) -> Figure:
    """A panel for each dial, a line for each depth: loss less the recipe's in the same seeds."""
    data, shown = record.data, _varied(record)
    figure, axes = new_figure(1, len(shown), width=PAGE, height=2.8, sharey=len(shown) > 1)
    for ax, sweep in zip(axes[0], shown, strict=True):
        for name, colour, mark in zip(_models(record), DEPTH_COLOURS, MARKS, strict=False):
            _dial(ax, record, sweep, name, colour, mark)
        values, recipe = _values(record, sweep), float(data.recipe_value.sel(sweep=sweep))
        ax.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        ax.set(xlabel=AXES[sweep])
        zero_line(ax)
        reference_line(ax, x=values.index(recipe))
    heights = [abs(line.get_ydata()).max() for ax in axes[0] for line in ax.lines if line.get_gid()]
    axes[0, 0].set_ylim(-1.15 * max(heights), 1.15 * max(heights))  # bands of few seeds are cut
    axes[0, 0].set_ylabel("loss less the recipe's, nats")
    axes[0, 0].plot([], [], color=BLACK, label="at its own best rate")
    axes[0, 0].plot([], [], color=BLACK, linestyle="--", linewidth=0.8, label="at the recipe's")
    letter_panels(axes[0])
    headline(figure, sweeps_message(record))
    _legend(figure, axes[0, 0], f"{_budget(record)}; dotted: the recipe")
    return figure


def _dial(ax: Axes, record: Record, sweep: str, name: str, colour: str, mark: str) -> None:
    """One depth's losses over one dial, at the best rate of each value and at the recipe's."""
    values, losses = sweep_losses(record.data, name, sweep)
    (recipe,) = np.flatnonzero(values == float(record.data.recipe_value.sel(sweep=sweep)))
    places = [_values(record, sweep).index(value) for value in values]
    centre = best_index(losses[recipe])
    own = np.stack([rows[best_index(rows)] for rows in losses]) - losses[recipe, centre]
    how: dict[str, Any] = {"label": _label(name), "marker": mark, "markersize": 3, "gid": name}
    mean_curve(ax, places, own, colour, **how)
    fixed = (losses[:, centre] - losses[recipe, centre]).mean(axis=1)
    ax.plot(places, fixed, color=colour, linestyle="--", linewidth=0.8)


def sweeps_message(record: Record) -> str:
    """The most that each dial gains at any depth, and with which value."""
    data, parts = record.data, []
    for sweep in _varied(record):
        gains = {
            (name, value): rows.mean()
            for name in _models(record)
            for value, rows in sweep_gains(data, name, sweep).items()
        }
        if gains:
            (name, value), most = max(gains.items(), key=lambda item: item[1])
            said = f"{WORDS[sweep]} {value:g} ({_label(name)}) gains {most:.3f}"
            parts.append(said if most > 0 else f"no other {WORDS[sweep]} gains")
    return f"Around the recipe, in nats at equal tokens: {'; '.join(parts)}"


def _legend(figure: Figure, ax: Axes, note: str) -> None:
    """One legend for all panels, below them, of their common entries."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=len(labels),
        title=note,
        title_fontsize=6.5,
        handlelength=2.5,
    )


def _budget(record: Record) -> str:
    n, tokens = record.data.sizes["seed"], record.notes["tokens"] / 1e6
    return f"{tokens:.2g} million tokens a training; mean and 95 % t interval of {n} seeds"


def _values(record: Record, sweep: str) -> list[float]:
    values = record.data.sweep_value.sel(sweep=sweep).values
    return [float(value) for value in values[np.isfinite(values)]]


def _models(record: Record) -> list[str]:
    return [str(name) for name in record.data.model.values]


def _varied(record: Record) -> list[str]:
    """Dials of which this run tried more than the recipe's value."""
    return [str(s) for s in record.data.sweep.values if len(_values(record, str(s))) > 1]


def _label(name: str) -> str:
    n = name.removeprefix("layers-")
    return "1 layer" if n == "1" else f"{n} layers"


FIGURES = (
    FigureSpec(
        "rates",
        rates,
        message="Held-out loss against the learning rate, at each depth and for each optimizer, "
        "after equally many tokens.",
        caption="The rates in use (circles) lie near the best of Adam's (stars), where the curves "
        "are flat.",
        refuted="Refuted for a depth whose circle lies visibly above Adam's star.",
    ),
    FigureSpec(
        "sweeps",
        sweeps,
        message="Warm-up, batch, width and initialisation, one at a time around the recipe, at "
        "equal tokens: at the best rate of each value (solid) and at the recipe's (dashed).",
        refuted="Refuted for a setting if a solid line falls clearly below zero away from the "
        "recipe.",
        where=lambda record: bool(_varied(record)),
    ),
)
