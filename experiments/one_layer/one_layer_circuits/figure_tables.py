"""The tables of the one-layer experiment: the largest skip-trigrams, and bugs."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.display.viewers import visible
from circuitax.figures.marks import interval_bars, seed_dots, zero_line
from circuitax.figures.palette import BLUE, GREY, ORANGE
from circuitax.figures.style import headline, new_figure, sample_note
from circuitax.records.estimate import mean_estimate
from circuitax.records.members import members_where
from circuitax.records.record import Record


def trigrams(record: Record) -> Figure:
    """S0's Table 1 for the first seed: the top sources of each head; shades are scores and raises.

    Of the most frequent tokens alone. S0 is "Some Structures in Transformer Architectures".
    """
    data = record.data
    names = [visible(str(name), 8) for name in data.token.values]
    n_heads, n_rows = data.sizes["head"], data.sizes["row"]
    n = data.sizes["entry"]
    examples = 2 * n + 1.2  # where the column of examples begins
    figure, axes = new_figure(1, 1, height=0.5 + 0.2 * n_heads * (n_rows + 0.35))
    ax = axes[0, 0]
    tops = {name: float(data[name].max()) for name in ("scores", "raises")}
    row = 0.0
    for head in range(n_heads):
        table = data.isel(head=head)
        ax.text(
            -0.12,
            row + n_rows / 2,
            f"head 0.{head}",
            rotation=90,
            va="center",
            ha="right",
            fontsize=7,
        )
        for name, cmap, x in (("scores", "Blues", 1), ("raises", "Oranges", n + 1)):
            ax.imshow(
                table[name].values,
                cmap=cmap,
                vmin=0,
                vmax=1.6 * tops[name],
                aspect="auto",
                extent=(x, x + n, row + n_rows, row),
            )
        for i in range(n_rows):
            source = names[int(table.sources[i])]
            _cell(ax, 0.5, row + i, source, weight="bold")
            dests = [names[int(t)] for t in table.destinations[i]]
            outs = [names[int(t)] for t in table.outs[i]]
            for entry in range(n):
                _cell(ax, 1.5 + entry, row + i, dests[entry])
                _cell(ax, n + 1.5 + entry, row + i, outs[entry])
            example = f"{source} … {dests[0]} {outs[0]}"
            ax.text(
                examples,
                row + i + 0.5,
                example,
                va="center",
                fontsize=6,
                color="#333333",
                family="monospace",
                parse_math=False,
            )
        row += n_rows + 0.35
    ax.set(xlim=(-0.5, 2 * n + 4.6), ylim=(row, 0), yticks=[])
    ax.set_xticks(
        [0.5, 1 + n / 2, 1 + 1.5 * n, examples + 1.7],
        ["source", "… destination", "→ out", "strongest skip-trigram"],
    )
    _bare(ax)
    for x in (1, n + 1):
        ax.axvline(x, color="white", linewidth=2)
    return figure


def bugs(record: Record) -> Figure:
    """The strongest bugs of the first seed, the model's predictions there, and prices by seed."""
    data = record.data
    first = data.isel(member=0)
    names = [visible(str(name), 8) for name in data.token.values]
    n = first.sizes["bug"]
    height = 0.7 + 0.17 * max(n, 8)  # the headline and the note need their room
    figure, axes = new_figure(1, 3, height=height, width_ratios=[2.2, 1.5, 0.6])
    table, said, price = axes[0]
    y = np.arange(n) + 0.5
    for i in range(n):
        words = [names[int(first[f"bug_{w}"][i])] for w in ("source", "destination", "out")]
        head, strength = int(first.bug_head[i]), float(first.bug_strength[i])
        for x, text in zip(
            (0, 3.6, 7.2, 9.6, 11.2),
            (words[0], f"… {words[1]}", f"→ {words[2]}", f"0.{head}", f"{strength:.0f}"),
            strict=True,
        ):
            table.text(
                x, i + 0.5, text, va="center", fontsize=6, family="monospace", parse_math=False
            )
    table.set(xlim=(0, 12.5), ylim=(n, 0), yticks=[])
    heads = ["source", "destination", "out", "head", "strength"]
    table.set_xticks([1.2, 4.8, 8.0, 10, 11.6], heads)
    _bare(table)
    table.tick_params(labelsize=6)
    # Rings around what they coincide with, so that every mark is seen.
    kinds = (
        ("bug_bigram", "s", 14, {"color": GREY, "linewidths": 0}, "text, after the destination"),
        ("bug_without", "o", 20, {"facecolors": "none", "edgecolors": BLUE}, "model without head"),
        ("bug_said", "D", 7, {"color": ORANGE, "linewidths": 0}, "model"),
    )
    floor, ticks = _decades(np.concatenate([first[name].values for name, *_ in kinds]))
    said.hlines(y, floor, 1, color=GREY, linewidth=0.3, alpha=0.5)
    for name, marker, size, colours, label in kinds:
        values = np.maximum(first[name].values, floor)
        said.scatter(values, y, s=size, marker=marker, label=label, zorder=3, **colours)
    said.set(xscale="log", xlim=(floor * 0.6, 1), ylim=(n, 0), yticks=[])
    said.set_xticks([floor, *ticks], ["0", *(f"{100 * tick:g} %" for tick in ticks)])
    said.tick_params(axis="x", labelsize=6.5)
    said.set_xlabel("P(out); behind source and\ndestination the text never has it")
    said.minorticks_off()
    said.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=6, ncols=1)
    alive = members_where(data).bug_price.values
    seed_dots(price, 0, alive, BLUE, half_width=0.2, size=10, opacity=1)
    mean = mean_estimate(alive)
    if np.isfinite(mean.low):
        interval_bars(price, [0.35], [mean], fmt="_", linewidth=0.8)
    zero_line(price)
    price.set(xlim=(-0.5, 0.6), xticks=[], ylabel="price, nats an event", xlabel="seeds")
    price.set_ylim(bottom=min(0, alive.min() * 1.1), top=max(alive.max() * 1.15, 0.01))
    raised = int((first.bug_said > first.bug_without).sum())
    headline(
        figure,
        f"Heads raise {raised} of their {n} strongest skip-trigrams that the text never has, "
        "at a price",
    )
    sample_note(figure, f"table: first of {alive.size} seeds; right: mean and 95 % interval")
    return figure


def _decades(values: np.ndarray) -> tuple[float, np.ndarray]:
    """Place of 0 on a logarithmic axis, below all data, and some ticks above it."""
    lowest = np.floor(np.log10(values[values > 0].min(initial=1e-2)))
    ticks = np.arange(0, lowest - 0.5, -np.ceil(-lowest / 4))[::-1]
    # The decade beside 0 has no room for a label.
    return float(10 ** (lowest - 1)), 10.0 ** ticks[ticks > lowest]


def _cell(ax: Axes, x: float, row: float, text: str, weight: str = "normal") -> None:
    ax.text(
        x,
        row + 0.5,
        text,
        ha="center",
        va="center",
        fontsize=6,
        family="monospace",
        weight=weight,
        parse_math=False,
    )


def _bare(ax: Axes) -> None:
    ax.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    for side in ax.spines.values():
        side.set_visible(False)
