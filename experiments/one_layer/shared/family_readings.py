"""A family of models of one text, read: losses, their gaps, and the gain from more text."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import (
    interval_bars,
    legend_above,
    mean_curve,
    reference_line,
    seed_column,
    tilted_labels,
)
from circuitax.figures.palette import BLACK, DEPTH_COLOURS, PINK, SKY, YELLOW
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.estimate import mean_estimate
from circuitax.records.record import members_where
from circuitax.records.sample import Absent, NotRun, Sample, mean_of

TABLE_STYLES = {"unigram": "dotted", "bigram": "dashed", "trigram": "solid"}
COLOURS = (*DEPTH_COLOURS[:3], PINK, SKY, YELLOW)  # 0, 1 and 2 layers, then with MLPs


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


def training(data: xr.Dataset) -> Figure:
    """Held-out loss over training and against the length of training, and at the end, by seed."""
    figure, axes = new_figure(1, 3, height=3.0, width_ratios=[1.3, 1.1, 1])
    left, middle, right = axes[0]
    for i, (name, colour) in enumerate(_models(data)):
        members = members_where(data.sel(model=name))
        tokens = data.tokens.values / 1e6
        mean_curve(left, tokens, members.loss.values, colour, label=_label(name), marker=None)
        ends = length_losses(data, name)
        if ends.size:
            means = [mean_estimate(row) for row in ends]
            interval_bars(middle, data.length.values / 1e6, means, colour=colour, fmt="o-")
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
    middle.set(xlabel="tokens of a whole training, millions", xscale="log")
    lengths = data.length.values / 1e6
    middle.set_xticks(lengths, [f"{length:.2g}" for length in lengths])
    middle.minorticks_off()
    right.set_title("ends of the longest")
    tilted_labels(right, [_label(n) for n, _ in _models(data)])
    right.margins(y=0.12)
    letter_panels(axes[0])
    # Below the unigram table, where all that is learned from neighbours is seen.
    left.set_ylim(top=max(float(data.unigram_loss), float(data.loss[:, -1].max())) + 0.3)
    legend_above(figure, left, columns=4)
    counts = sorted({int(n) for n in data.alive.sum("member").values})
    n = " or ".join(map(str, counts))
    note = f"means and 95 % intervals of {n} seeds, in b of {data.sizes['seed']}"
    sample_note(figure, note)
    return figure


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
