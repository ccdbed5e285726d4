"""One-layer circuits read: copying, bugs and their price, and what a softmax says beyond sums."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from circuitax.display.viewers import visible
from circuitax.figures.marks import (
    interval_bars,
    mean_bars,
    reference_line,
    seed_dots,
    zero_line,
)
from circuitax.figures.palette import BLACK, BLUE, GREY, ORANGE
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.estimate import mean_estimate
from circuitax.records.members import members_where
from circuitax.records.sample import Absent, NotRun, Sample, geometric_mean_of, mean_of

LEARNED = 0.75  # P(out) after a alone, from which a head has learned the rule
TINY = 1e-12
COPIES = 0.25  # copying score that one random head in twenty has between trained embeddings


def copying(data: xr.Dataset, when: str = "") -> Sample:
    """OV eigenvalue score, mean over the heads of a seed; ``when="_at_init"`` before training."""
    return mean_of(members_where(data)[f"copying{when}"].mean("head"))


def share_that_copies(data: xr.Dataset, when: str = "") -> Sample:
    """Share of heads with the score from which a head copies."""
    return mean_of((members_where(data)[f"copying{when}"] > COPIES).mean("head"))


def bug_ratio(data: xr.Dataset) -> Sample:
    """P(out) at the pairs of bugs over that without the head, geometric mean."""
    alive = members_where(data)
    logs = np.log(np.maximum(alive.bug_said, TINY) / np.maximum(alive.bug_without, TINY))
    means = logs.mean("bug").values
    if not np.isfinite(means).any():
        raise Absent("no pair of a bug stands in the windows looked at")
    return geometric_mean_of(means[np.isfinite(means)])


def bug_cost(data: xr.Dataset) -> Sample:
    """Held-out nats an event that a free vector for each frequent pair saves."""
    return mean_of(members_where(data).bug_price)


def gap_on_text(data: xr.Dataset) -> Sample:
    """Last held-out loss of the sum over sources less that of the softmax, pair by pair."""
    pairs = _finite_pairs(data)
    return mean_of(pairs.sum_end - pairs.softmax_end)


def share_of_gain(data: xr.Dataset) -> Sample:
    """Of what a softmax gains over the bigram table, the share that the sum gains too."""
    pairs = _finite_pairs(data)
    return mean_of((pairs.bigram_loss - pairs.sum_end) / (pairs.bigram_loss - pairs.softmax_end))


def unless_gap(data: xr.Dataset, learned: bool = False) -> Sample:
    """On "a unless b", loss of the best sum less that of the head, of all or those that learned."""
    runs = members_where(data, has_learned(data) if learned else "gap_alive")
    if not runs.sizes["run"]:
        raise Absent("no seed learned the rule" if learned else "no head stayed finite")
    return mean_of(runs.gap)


def sum_misses(data: xr.Dataset) -> Sample:
    """On "a unless b", loss of the best sum less the entropy of the answers."""
    return mean_of(data.additive_loss - data.optimal_loss)


def has_learned(data: xr.Dataset) -> xr.DataArray:
    """Seeds whose head tells a alone from the other cells; the others sit on a plateau."""
    return data.gap_alive & (data.p_out.isel(cell=1) > LEARNED)


def _finite_pairs(data: xr.Dataset) -> xr.Dataset:
    pairs = members_where(data, np.isfinite(data.softmax_end) & np.isfinite(data.sum_end))
    if not pairs.sizes["pair"]:
        raise NotRun("no pair of models stayed finite")
    return pairs


def trigrams(data: xr.Dataset) -> Figure:
    """S0's Table 1 for the first seed: the top sources of each head; shades are scores and raises.

    Of the most frequent tokens alone. S0 is "Some Structures in Transformer Architectures".
    """
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


def eigenvalues(data: xr.Dataset) -> Figure:
    """Angle and size of every eigenvalue, size on a logarithmic radius."""
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
    sample_note(
        figure, f"every eigenvalue of {alive.copying.size} heads of {alive.sizes['member']} seeds"
    )
    return figure


def bugs(data: xr.Dataset) -> Figure:
    """The strongest bugs of the first seed, the model's predictions there, and prices by seed."""
    first = data.isel(member=0)
    names = [visible(str(name), 8) for name in data.token.values]
    n = first.sizes["bug"]
    height = 0.7 + 0.17 * max(n, 8)  # the note needs its room
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
    sample_note(figure, f"table: first of {alive.size} seeds; right: mean and 95 % interval")
    return figure


def additivity(data: xr.Dataset) -> Figure:
    """Losses of both families on text, the gap of each pair, and P(out) on "a unless b"."""
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
    sample_note(
        figure,
        f"a, b: {gap.size} of {data.sizes['pair']} pairs of models stayed finite; bar: 95 % "
        f"interval; c: {runs.sizes['run']} seeds",
    )
    return figure


def _learned(data: xr.Dataset) -> xr.Dataset:
    return members_where(data, has_learned(data), otherwise="gap_alive")


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
    ax.set(
        xticks=x,
        xticklabels=["neither", "a", "b", "both"],
        ylim=(0, 1.25),
        ylabel="P(out)",
        yticks=[0, 0.5, 1],
        title="“a unless b”",
    )
    ax.legend(loc="upper center", ncols=3, fontsize=6, columnspacing=0.8, handlelength=1.2)


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
