"""The same recipe on code and on prose: common and different results, skip-trigrams in words."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.display.viewers import visible
from circuitax.figures.marks import (
    interval_bars,
    mean_bars,
    reference_line,
    seed_column,
    seed_dots,
    tilted_labels,
    zero_line,
)
from circuitax.figures.notice import notice
from circuitax.figures.palette import BLACK, BLUE, GREY, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.estimate import mean_estimate
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.induction.languages.measures import samples

LANGUAGES = {"python": ("Python source", ORANGE), "english": ("English prose", BLUE)}


def readings(record: Record) -> Figure:
    """Four panels, Python beside English in each: losses, orders of paths, layers, and heads."""
    if not _has_text(record):
        return notice(f"not at hand: {record.notes['missing']}")
    data = record.data
    figure, axes = new_figure(2, 2, height=5.0)
    loss, orders, layers, heads = axes.flat
    shown_of = {}
    for i, (language, (label, colour)) in enumerate(LANGUAGES.items()):
        chosen = data.sel(language=language)
        members = members_where(chosen, (chosen.alive == 1).all("model"))
        shift = 0.4 * i - 0.2
        found = shown_of[language] = samples(members)
        how: dict[str, Any] = {"shift": shift, "width": 0.38, "label": label}
        for k, row in enumerate(members.loss_of_depth.transpose("model", "member").values):
            seed_dots(loss, k + shift, row, colour, half_width=0.12)
            interval_bars(loss, [k + shift], [mean_estimate(row)], capsize=3)
        loss.plot([], [], "s", color=colour, label=label)
        loss.plot(
            [shift - 0.19, shift + 0.19],
            [float(chosen.bigram_loss)] * 2,
            color=BLACK,
            linewidth=1,
            linestyle="--",
            label="bigram table" if i else None,
        )
        mean_bars(orders, [found[f"order-{k}"] for k in range(3)], colour, **how)
        first = members.first_order_loss.transpose("selection", "member").values
        mean_bars(layers, [first[0] - first[1], first[2] - first[3]], colour, **how)
        for k, name in enumerate(("most-copy", "rejoin", "previous-head", "induction-head")):
            if name in found:
                seed_column(heads, k + shift, found[name], colour, form=".2f", half_width=0.12)
    loss.set_xticks(range(3), ("no layer", "one layer", "two layers"))
    loss.set(ylabel="held-out loss, nats per token", title="each layer helps")
    low = min(float(data.loss_of_depth.min()), float(data.bigram_loss.min()))
    loss.set_ylim(bottom=low - 0.5)
    orders.set_xticks(range(3), ("direct\npath", "single\nheads", "virtual\nheads"))
    orders.set(ylabel="nats saved", title="what paths are worth, two layers")
    layers.set_xticks((0, 1), ("without heads\nof layer 1", "with them"))
    layers.set(ylabel="nats saved", title="what heads of layer 0 are worth")
    tilted_labels(
        heads, ["heads that copy", "re-join split words, σ", "previous token", "induction"]
    )
    heads.set(ylabel="share, σ, or attention", title="what heads do")
    reference_line(heads, y=0.4, label="a head counts as such")
    heads.legend(loc="upper right")
    for ax in axes.flat:
        zero_line(ax)
    handles, labels = loss.get_legend_handles_labels()
    n = " and ".join(
        f"{len(found['order-0'])} ({LANGUAGES[name][0]})" for name, found in shown_of.items()
    )
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=3,
        title=f"mean and 95 % interval over seeds, n = {n}",
        title_fontsize=7,
    )
    letter_panels(axes.flat)
    return figure


def _trigrams(table: dict[str, list]) -> Figure:
    n_heads, n_rows = np.shape(table["sources"])
    lines = n_heads * (n_rows + 0.5)
    figure, axes = new_figure(1, 1, height=0.5 + 0.19 * lines)
    ax, y = axes[0, 0], 0.0
    columns = (0.0, 0.16, 0.45, 0.74)
    for x, title in zip(columns, ("it sees", "and stands at", "so it says", "as in"), strict=True):
        ax.text(x, -0.7, title, fontsize=7, weight="bold")
    for head in range(n_heads):
        ax.text(-0.02, y + 0.5 * n_rows, f"head {head}", rotation=90, ha="right", va="center")
        for row in range(n_rows):
            source = _word(table["sources"][head][row])
            there = [_word(word) for word in table["destinations"][head][row]]
            outs = [_word(word) for word in table["outs"][head][row]]
            example = f"{source} … {there[0]} {outs[0]}"
            for x, text in zip(
                columns, (source, "  ".join(there), "  ".join(outs), example), strict=True
            ):
                _cell(ax, x, y + 0.5, text, grey=x == columns[-1])
            y += 1
        y += 0.5
    ax.set(xlim=(-0.05, 1.0), ylim=(y, -1.2))
    ax.set_axis_off()
    return figure


def words(record: Record) -> Figure:
    """The strongest sources of each head of the first member with one layer, as text."""
    return _trigrams(record.notes["tables"]["english"]["words"])


def trigrams(record: Record) -> Figure:
    """The strongest sources of each head of the first member with one layer, as text."""
    return _trigrams(record.notes["tables"]["english"]["frequent"])


def _has_text(record: Record) -> bool:
    return "missing" not in record.notes


def _has_words(record: Record) -> bool:
    # A small vocabulary may have none.
    return _has_text(record) and "words" in record.notes["tables"]["english"]


def _word(token: str) -> str:
    return visible(token, 10)


def _cell(ax: Axes, x: float, y: float, text: str, *, grey: bool) -> None:
    ax.text(
        x,
        y,
        text,
        fontsize=6,
        va="center",
        family="monospace",
        color=GREY if grey else BLACK,
        parse_math=False,
    )


FIGURES = (
    FigureSpec(
        "readings",
        readings,
        message="On prose as on code each layer helps, and single heads save less than the direct "
        "path.",
        caption="Held-out loss by depth (a), nats saved by paths of each order (b), the value of "
        "the first layer with and without layer 1 (c), and scores of heads (d).",
        refuted="Refuted if English, in blue, goes another way than Python.",
    ),
    FigureSpec(
        "words",
        words,
        message="Among tokens that are words, heads pair related words: offering … drink, wife … "
        "her.",
        caption='Table 1 of S0 ("Some Structures in Transformer Architectures") by its rule, '
        "head by head of one model with one layer, of tokens that are a word in at least half of "
        "their places.",
        refuted="Refuted if outs have nothing to do with their sources.",
        where=_has_words,
    ),
    FigureSpec(
        "trigrams",
        trigrams,
        message="Among all frequent tokens, the strongest skip-trigrams mostly consist of word "
        "pieces.",
        caption="The same table of the same model, of its most frequent tokens.",
        refuted="Refuted if most rows are of whole words, as the paper's are.",
        where=_has_text,
    ),
)
