"""A zero-layer transformer is a low-rank bigram table; a one-layer direct path is none at all."""

import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line, seed_column
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE, SEQUENTIAL
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import COLUMN, headline, letter_panels, new_figure, sample_note
from circuitax.records.record import Record


def widths(record: Record) -> Figure:
    """Divergence from the table and cross-entropy, over d_model."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.4)
    left, right = axes[0]
    x = data.width.values
    mean_curve(left, x, data.kl, BLUE, label="zero-layer model", least=1e-6, marker="o")
    left.plot(
        x[:-1],
        data.rank_kl.values[:-1],
        color=GREY,
        linestyle=":",
        marker="s",
        label="SVD of the log table",
    )
    left.set(yscale="log", ylabel="KL from the table, nats")
    for name, colour, label in (("train", BLUE, "training text"), ("held_out", ORANGE, "held-out")):
        mean_curve(right, x, data[name], colour, label=label, least=1e-6, marker="o")
        table = data[f"table_{name}_loss"]
        reference_line(right, y=table, colour=colour, style="dashed", label=f"table, {label}")
    right.set(ylabel="loss, nats per token")
    for ax in (left, right):
        ax.set_xscale("log", base=2)
        ax.set_xticks(x, [f"{w}" for w in x])
        ax.minorticks_off()
        ax.set(xlabel=f"$d_{{model}}$ (vocabulary {x[-1]})")
    left.legend()
    low, high = right.get_ylim()
    right.set_ylim(top=high + 0.3 * (high - low))  # room for the legend above all lines
    right.legend(ncols=2, loc="upper right", fontsize=6)
    letter_panels(axes[0])
    ends = [float(data.kl.isel(width=i).mean()) for i in (0, -1)]
    headline(
        figure,
        f"From width {x[0]} to {x[-1]}, that of the vocabulary, the divergence from the bigram "
        f"table falls from {ends[0]:.2f} to {ends[1]:.3f} nats",
    )
    sample_note(figure, f"mean and 95 % interval of {data.kl.sizes['member']} seeds")
    return figure


def pairs(record: Record) -> Figure:
    """Log probability of drawn pairs: the table against the model, at three widths."""
    data = record.data
    chosen = sorted({0, data.sizes["width"] // 2, data.sizes["width"] - 1})
    figure, axes = new_figure(1, len(chosen), height=2.4, sharey=True)
    low = max(-14.0, float(data.pair_table.min()))
    order = np.argsort(data.pair_count.values)
    for ax, i in zip(axes[0], chosen, strict=True):
        dots = ax.scatter(
            data.pair_table.values[order],
            data.pair_model.values[i][order],
            s=3,
            c=np.log10(data.pair_count.values[order]),
            cmap=SEQUENTIAL,
            linewidths=0,
            alpha=0.7,
            rasterized=True,
        )
        ax.plot([low, 0], [low, 0], color=BLACK, linewidth=0.8)
        ax.set(
            title=f"$d_{{model}}$ = {int(data.width[i])}",
            xlabel="bigram table, log P(b | a)",
            xlim=(low, 0.2),
            ylim=(low, 0.2),
        )
    axes[0, 0].set_ylabel("zero-layer model, log P(b | a)")
    figure.colorbar(dots, ax=axes[0].tolist(), label="occurrences of the pair, log$_{10}$")
    letter_panels(axes[0])
    sample_note(figure, f"{order.size:,} pairs drawn from the table; one seed; logarithms natural")
    return figure


def paths(record: Record) -> Figure:
    """KL from the table of trained text models and of parts of them, seed by seed."""
    data = record.data
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.4)
    ax = axes[0, 0]
    labels = {
        "zero layers": "zero-layer\nmodel",
        "direct path": "one layer,\ndirect path",
        "whole, mean": "one layer, mean\nover contexts",
    }
    for i, (kind, colour) in enumerate(zip(labels, (BLUE, ORANGE, GREEN), strict=True)):
        seed_column(ax, i, data.path_kl.sel(kind=kind), colour)
    ax.set_xticks(range(3), labels.values())
    ax.set(ylabel="KL from the bigram table, nats", xlim=(-0.5, 2.5))
    ax.set_ylim(0, 1.15 * float(data.path_kl.max()))
    sample_note(figure, f"dots: {data.path_kl.sizes['seed']} seeds; bars: mean, 95 % interval")
    return figure


FIGURES = (
    FigureSpec(
        "widths",
        widths,
        message="Wider models are nearer to the bigram table.",
        caption="Their divergence (a) and loss (b), beside those of tables of the same rank and "
        "of the table itself.",
        refuted="Refuted if the curve levels off above the dotted line of the SVD.",
    ),
    FigureSpec(
        "pairs",
        pairs,
        message="At full width frequent pairs have the table's probability; narrow models miss "
        "even these.",
        refuted="Refuted if the right panel leaves the diagonal where pairs are frequent.",
    ),
    FigureSpec(
        "paths",
        paths,
        message="Heads take over part of the bigrams: the direct path alone is further from the "
        "table.",
        refuted="Refuted if the direct path is as near as the zero-layer model.",
    ),
)
