"""One layer on real text: copying, attention, and skip-trigrams of its heads."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from circuitax.figures.marks import (
    interval_bars,
    mean_bars,
    reference_line,
    seed_dots,
    zero_line,
)
from circuitax.figures.palette import BLACK, BLUE, GREY, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import headline, letter_panels, new_figure, sample_note
from circuitax.records.estimate import mean_estimate
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.one_layer.one_layer_circuits.figure_tables import bugs, trigrams
from experiments.one_layer.one_layer_circuits.measures import learned


def eigenvalues(record: Record) -> Figure:
    """Angle and size of every eigenvalue, size on a logarithmic radius."""
    data = record.data
    alive = members_where(data)
    figure = Figure(figsize=(6.75, 3.2))
    for i, (suffix, title) in enumerate((("_at_init", "before training"), ("", "after"))):
        ax = figure.add_subplot(1, 2, i + 1, projection="polar")
        both = alive[f"eigenvalues{suffix}"].values
        half = both.shape[-1] // 2
        values = (both[..., :half] + 1j * both[..., half:]).ravel()
        radius = np.log10(np.maximum(np.abs(values), 1e-12) / np.abs(values).max()) + 3
        ax.scatter(
            np.angle(values), np.maximum(radius, 0), s=4, color=BLUE, alpha=0.4, linewidths=0
        )
        mean = float(alive[f"copying{suffix}"].mean())
        ax.set(
            title=f"{title}: mean score {mean:.2f}",
            ylim=(0, 3.05),
            yticks=[1, 2, 3],
            yticklabels=["1 %", "10 %", "100 % of\nlargest |λ|"],
        )
        ax.tick_params(axis="y", labelrotation=0)
        ax.set_xticks(np.pi * np.arange(4) / 2, ["0", "π/2", "π", "3π/2"])
        ax.tick_params(labelsize=6)
        ax.grid(color=GREY, linewidth=0.4, alpha=0.6)
    sample_note(figure, f"every eigenvalue of {alive.copying.size} heads of {_seeds(alive)}")
    return figure


def scores(record: Record) -> Figure:
    """Histogram of copying scores, copying accuracy, and scores by offset."""
    data = record.data
    alive = members_where(data)
    figure, axes = new_figure(1, 3, height=2.5)
    copying, accuracy, offsets = axes[0]
    bins = np.linspace(-1, 1, 21)
    for suffix, colour, label in (("_at_init", GREY, "before training"), ("", BLUE, "after")):
        copying.hist(
            alive[f"copying{suffix}"].values.ravel(), bins, color=colour, alpha=0.85, label=label
        )
        found = 100 * alive[f"top_5{suffix}"].values.ravel()
        jitter = np.linspace(-0.25, 0.25, found.size)
        x = 0.0 if suffix else 1.0
        accuracy.scatter(x + jitter, np.sort(found), s=8, color=colour, linewidths=0, alpha=0.8)
    copying.set(xlabel="OV eigenvalue score", ylabel="heads, all seeds", xlim=(-1, 1))
    copying.set_ylim(top=1.3 * copying.get_ylim()[1])
    copying.legend(loc="upper left", ncols=2, columnspacing=0.8, handlelength=1.2, fontsize=6)
    chance = 500 / data.sizes["token"]
    reference_line(accuracy, y=chance)
    accuracy.annotate(
        "chance", (0.5, chance), xytext=(0, 2), textcoords="offset points", fontsize=6, ha="center"
    )
    accuracy.set(ylabel="tokens among the five they\nraise most, %", xlim=(-0.5, 1.5))
    accuracy.set_xticks([0, 1], ["before", "after"])
    for suffix, colour in (("_at_init", GREY), ("", BLUE)):
        rows = alive[f"position_scores{suffix}"].values.reshape(-1, alive.sizes["offset"])
        offsets.plot(rows.T, color=colour, linewidth=0.5, alpha=0.6)
    for colour, label in ((GREY, "before training"), (BLUE, "after")):
        offsets.plot([], [], color=colour, linewidth=0.8, label=label)
    offsets.legend(loc="upper right", fontsize=6)
    offsets.set(xlabel="tokens back", ylabel="score from positions alone")
    letter_panels(axes[0])
    trained = alive.copying.values.ravel()
    above = int((trained > alive.copying_at_init.values.max()).sum())
    near = int((rows[:, 0] > rows[:, -1]).sum())  # of the trained, which come last
    headline(
        figure,
        f"After training {above} of {trained.size} heads copy more than any did before, and "
        f"{near} of {len(rows)} prefer what stands near",
    )
    sample_note(figure, f"every head of {_seeds(alive)}")
    return figure


def additivity(record: Record) -> Figure:
    """Losses of both families on text, the gap of each pair, and P(out) on "a unless b"."""
    data = record.data
    figure, axes = new_figure(1, 3, height=2.7, width_ratios=[1.5, 0.6, 1.3])
    curves, gaps, unless = axes[0]
    both = np.isfinite(data.softmax_end) & np.isfinite(data.sum_end)
    pairs = members_where(data, both)
    tokens = data.look_tokens.values[1:] / 1e6
    for name, colour, label in (("softmax", BLUE, "softmax"), ("sum", ORANGE, "sum over sources")):
        rows = pairs[f"{name}_curve"].transpose("look", "pair").values[1:]
        for i, column in enumerate(rows.T):
            curves.plot(tokens, column, color=colour, linewidth=0.8, label=None if i else label)
    bigram = float(data.bigram_loss)
    reference_line(curves, y=bigram, label="bigram table", style="dashed")
    curves.set(
        xscale="log",
        xlabel="tokens seen, millions",
        ylabel="held-out loss, nats per token",
        ylim=(
            min(float(data[f"{n}_curve"].min()) for n in ("softmax", "sum")) - 0.05,
            bigram + 0.75,
        ),
    )
    curves.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    curves.xaxis.set_major_formatter("{x:g}")
    curves.xaxis.set_minor_formatter("")
    curves.legend(loc="upper right", fontsize=6)
    gap = (pairs.sum_end - pairs.softmax_end).values
    seed_dots(gaps, 0, gap, ORANGE, size=12, opacity=1)
    if gap.size > 1:
        interval_bars(gaps, [0.28], [mean_estimate(gap)], fmt="_", linewidth=0.8)
    zero_line(gaps)
    gaps.set(xlim=(-0.5, 0.6), ylabel="sum less softmax, nats", xticks=[])
    _unless(unless, data)
    letter_panels(axes[0])
    runs = _learned(data)
    on_text = "diverges beside"
    if gap.size:
        on_text = f"ends {abs(gap.mean()):.3f} nats {'below' if gap.mean() < 0 else 'above'}"
    headline(
        figure,
        f"On text a sum over sources {on_text} a softmax; on “a unless b” the best ends "
        f"{float(runs.gap.mean()):.3f} above",
    )
    sample_note(
        figure,
        f"a, b: {gap.size} of {data.sizes['pair']} pairs of models stayed finite; bar: 95 % "
        f"interval; c: {runs.sizes['run']} seeds",
    )
    return figure


def _seeds(members: xr.Dataset) -> str:
    return f"{members.sizes['member']} seeds"


def _learned(data: xr.Dataset) -> xr.Dataset:
    return members_where(data, learned(data), otherwise="gap_alive")


def _unless(ax: Axes, data: xr.Dataset) -> None:
    runs = _learned(data)
    x = np.arange(4)
    kinds = (("p_out", BLUE, "one head"), ("additive_p_out", ORANGE, "best sum"))
    for shift, (name, colour, label) in zip((-0.2, 0.2), kinds, strict=True):
        rows = runs[name].transpose("cell", "run")
        mean_bars(ax, rows, colour, shift=shift, width=0.38, label=label)
    # The language itself: P(out) is 1/2 but where a stands without b.
    ax.hlines(
        [0.5, 0.9, 0.5, 0.5],
        x - 0.45,
        x + 0.45,
        color=BLACK,
        linewidth=0.9,
        linestyle=":",
        label="the rule",
    )
    gap = float(runs.gap.mean())
    ax.set(
        xticks=x,
        xticklabels=["neither", "a", "b", "both"],
        ylim=(0, 1.25),
        ylabel="P(out)",
        yticks=[0, 0.5, 1],
        title=f"“a unless b”: {gap:+.3f} nats",
    )
    ax.legend(loc="upper center", ncols=3, fontsize=6, columnspacing=0.8, handlelength=1.2)


FIGURES = (
    FigureSpec(
        "trigrams",
        trigrams,
        message="Heads of one layer hold skip-trigrams: a source, the tokens that attend to it, "
        "and the tokens that it raises.",
        caption='Table 1 of S0 ("Some Structures in Transformer Architectures") for every head '
        "of the first seed. The entries are the largest by a stated rule.",
    ),
    FigureSpec(
        "eigenvalues",
        eigenvalues,
        message="Training turns OV eigenvalues towards the positive side: heads learn to copy.",
        caption="All heads and seeds in the complex plane, before and after training.",
        refuted="Refuted if the trained ones do not lean to the right.",
    ),
    FigureSpec(
        "scores",
        scores,
        message="After training heads copy, and prefer near tokens.",
        caption="Copying scores and accuracy of heads, and scores by offset, against untrained "
        "heads.",
    ),
    FigureSpec(
        "bugs",
        bugs,
        message="Heads must raise skip-trigrams that never occur in the text, at a price.",
        caption="The strongest of the first seed, the model's predictions there, and the price "
        "for each seed.",
    ),
    FigureSpec(
        "additivity",
        additivity,
        message='A sum over sources cannot express the rule "a unless b", which a softmax can; '
        "on text it does no worse.",
        refuted="Refuted if the sums' curves end above the softmax's, or their bars reach the "
        "rule's. Both families have the same weights and factors of positions; the sum has a "
        "factor for each destination token where the softmax has its denominator. Both are "
        "trained from equal initialisations on the same windows. Dots are of more held-out "
        "windows than curves.",
    ),
)
