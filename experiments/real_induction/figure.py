"""Which heads of a real model match prefixes, what they write and read, and what they are worth.

heads     Left: prefix and previous-token scores of all heads by layer, with the reference numbers.
          Middle: what each head adds to the right token, by its prefix score; the paper's heads
          that copy negatively lie below zero. Right: attention of the best heads to matches of
          which one token is kept; the paper's figure (F14 in docs/acceptance.md) is refuted if
          the bars of the attended token are higher.
ablation  Left: loss along a text of two copies, intact and without sets of five heads. Right: what
          each set costs on second copies; refuted if the crosses lie among the random sets.
"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_bars, reference_line, seed_column, zero_line
from circuitax.figures.notice import notice
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE
from circuitax.figures.style import headline, letter_panels, new_figure, styled
from circuitax.records.record import Record
from experiments.real_induction.measures import draws, of_top, rises
from experiments.real_induction.reference import INDUCTION_SCORE, SCORES, SEARCHES

SETS = {"intact": BLACK, "induction": BLUE, "previous": ORANGE}
NAMED = 4  # heads with their names beside them
BLOCK = 4  # places that a point of the loss curves is the mean of; one block ends at the turn


@styled
def draw(record: Record) -> dict[str, Figure]:
    """Both figures; without weights one that says what is missing."""
    data, notes = record.data, record.notes
    if notes["missing"]:
        return {
            "heads": notice(
                f"SmolLM2 was not read, so that nothing was measured.\n{notes['missing']}"
            )
        }
    what = "SmolLM2-135M" if notes["weights"] == "smollm2" else "A small random model"
    return {"heads": heads(data, what), "ablation": ablation(data, notes["length"], what)}


def heads(data: xr.Dataset, what: str) -> Figure:
    """Where heads of a kind lie, what they write, and what their keys are made of."""
    figure, axes = new_figure(1, 3, height=2.35)
    mean = data.scores.sel(twin="plain").mean("text")
    left, middle, right = axes[0]
    for kind, colour, mark, label in (
        ("prefix", BLUE, "o", "prefix matching"),
        ("previous", ORANGE, "s", "previous token"),
    ):
        _by_layer(left, mean.sel(kind=kind).values, colour, mark, label)
        if what.startswith("SmolLM2"):
            places = np.array([layer for layer, _ in SCORES[kind]])
            scores = list(SCORES[kind].values())
            left.plot(places, scores, mark, color=BLACK, fillstyle="none", markeredgewidth=0.5)
    left.set(xlabel="layer", ylabel="attention, mean of texts", ylim=(0, 1.19))
    left.set_title("Heads of both kinds")
    left.legend(
        loc="upper center",
        ncols=2,
        fontsize="x-small",
        title="outlined: reference",
        title_fontsize="x-small",
    )
    prefix, direct = mean.sel(kind="prefix").values, data.direct.mean("text").values
    middle.scatter(prefix, direct, s=6, color=BLUE, alpha=0.7, linewidths=0)
    zero_line(middle)
    reference_line(middle, x=INDUCTION_SCORE)
    low, high = direct.min(), direct.max()
    cells = {*_largest(prefix, NAMED), *_largest(direct, 2)}
    cells |= {*_largest(np.where(prefix > SEARCHES, -direct, -np.inf), 1)}
    for layer, head in sorted(cells):
        point = (prefix[layer, head], direct[layer, head])
        above = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center"}
        middle.annotate(f"{layer}.{head}", point, fontsize=6, **above)
    middle.set(xlabel="prefix score", ylabel="effect on the right logit")
    middle.set(title="What they write", ylim=(low - 0.08 * (high - low), high * 1.1 + 1e-9))
    spoilt = of_top(data, data.scores.sel(twin="spoilt"))
    for kind, colour, shift, label in (
        ("earlier", BLUE, -0.2, "token before the attended one"),
        ("attended", ORANGE, 0.2, "attended token"),
    ):
        rows = spoilt.sel(kind=kind).transpose("rank", "text").values
        mean_bars(right, rows, colour, shift=shift, width=0.38, label=label)
    best = data.sel(without="induction")
    of_rank = zip(best.removed_layer.values, best.removed_head.values, strict=True)
    names = [f"{layer}.{head}" for layer, head in of_rank]
    right.set_xticks(range(len(names)), names)
    right.set(xlabel="head", ylabel="attention to matches", ylim=(0, 1.19))
    right.set_title("What their keys read")
    right.legend(
        title="kept of a match", title_fontsize="x-small", fontsize="x-small", loc="upper right"
    )
    letter_panels(axes[0])
    n = data.sizes["text"]
    headline(
        figure,
        f"{what}: heads that match prefixes, what they write and read; {n} texts, 95 % t in c",
    )
    return figure


def ablation(data: xr.Dataset, length: int, what: str) -> Figure:
    """Losses along the text, and what each set of heads is worth."""
    figure, axes = new_figure(1, 2, height=2.2, width_ratios=(1.7, 1))
    left, right = axes[0]
    random = data.loss_by_place.sel(curve="random")
    n = data.sizes["rank"]
    for name, colour in SETS.items():
        label = name if name == "intact" else f"without {n} {name}{'-token' * (name == 'previous')}"
        _curve(left, data.loss_by_place.sel(curve=name), colour, label)
    _curve(left, random, GREEN, f"without {n} random")
    left.axvline(length + 0.5, color=GREY, linewidth=0.5)
    left.set(xlabel="place of the predicted token", ylabel=f"loss, nats, mean of {BLOCK} places")
    left.set(title="Loss along two copies", ylim=(0, None))
    left.legend(loc="lower left", fontsize="x-small")
    rise = rises(data)
    seed_column(right, 2, rise.sel(set=draws(data)).values, GREEN, form=".2f")
    for i, name in enumerate(("induction", "previous")):
        value = float(rise.sel(set=name))
        right.plot(i, value, "X", color=SETS[name], markersize=7)
        above = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center"}
        right.annotate(f"{value:.2f}", (i, value), fontsize=6.5, **above)
    zero_line(right)
    right.set_xticks(
        range(3), ["induction", "previous\ntoken", f"random,\n{len(draws(data))} sets"]
    )
    right.set(xlim=(-0.5, 2.5), ylabel="rise of the loss, nats", title="Cost on second copies")
    right.margins(y=0.15)
    letter_panels(axes[0])
    headline(
        figure,
        f"{what} without {n} heads at a time; random sets in b: mean, 95 % t interval",
    )
    return figure


def _by_layer(ax: Axes, scores: np.ndarray, colour: str, mark: str, label: str) -> None:
    layers = np.repeat(np.arange(len(scores)), scores.shape[1])
    ax.plot(
        layers, scores.ravel(), mark, color=colour, markersize=2.5, markeredgewidth=0, label=label
    )


def _largest(values: np.ndarray, n: int) -> list[tuple[int, int]]:
    order = np.argsort(-values.ravel())[:n]
    rows, columns = np.unravel_index(order, values.shape)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def _curve(ax: Axes, losses: xr.DataArray, colour: str, label: str) -> None:
    blocks = losses.assign_coords(place=np.arange(losses.size) + 1)
    blocks = blocks.coarsen(place=BLOCK, boundary="trim").mean()
    ax.plot(blocks.place, blocks, color=colour, linewidth=0.9, label=label)
