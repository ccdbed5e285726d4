"""The largest paths of a real model and their proofs: what is read from the record, and figures."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullLocator

from circuitax.figures.marks import mean_bars, reference_line, seed_column, zero_line
from circuitax.figures.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    TEXT_COLOURS,
    letter_panels,
    new_figure,
    sample_note,
)
from circuitax.records.sample import (
    Absent,
    NotRun,
    Sample,
    exactly,
    mean_of,
    mean_of_those_finite,
    share_of,
)
from experiments.real_models.shared.model_facts import model_read, of_smollm2

# The five best induction heads of `real_induction`, by an independent pass over other texts.
INDUCTION = frozenset({"18.6", "17.3", "17.4", "18.7", "17.5"})
KINDS = {"random tokens": TEXT_COLOURS["random"], "prose": TEXT_COLOURS["english"]}


def complete(data: xr.Dataset) -> Sample:
    """Share of prompts whose listed paths are proven to be the largest."""
    return share_of(_real(data).complete.values)


def closing_error(data: xr.Dataset) -> Sample:
    """Largest difference between all paths together and the model's own lead."""
    data = _real(data)
    return exactly(data.closing_error.max(), data.sizes["prompt"])


def short(data: xr.Dataset) -> Sample:
    """Share of the listed paths that go through at most one head."""
    few = [[len(heads_of(str(name))) <= 1 for name in row] for row in _real(data).path.values]
    return mean_of(np.mean(few, axis=1))


def with_induction(data: xr.Dataset) -> Sample:
    """Share of prompts of random tokens with an induction head on a listed path."""
    data = _real(data)
    rows = data.path.values[data.kind.values == "random tokens"]
    on_paths = [{head for name in row for head in heads_of(str(name))} for row in rows]
    return share_of([not INDUCTION.isdisjoint(heads) for heads in on_paths])


def missed_heads(data: xr.Dataset, score: str) -> Sample:
    """Share of the heads on the listed paths that a score does not name."""
    return mean_of_those_finite(proven(_real(data)).missed_heads.sel(score=score).values)


def missed_less(data: xr.Dataset, score: str, than: str) -> Sample:
    """Share of heads that a score misses less than another, in the same prompts."""
    missed = proven(_real(data)).missed_heads
    return mean_of_those_finite((missed.sel(score=than) - missed.sel(score=score)).values)


def proven(data: xr.Dataset) -> xr.Dataset:
    """The prompts whose list is proven."""
    found = data.isel(prompt=np.flatnonzero(data.complete.values))
    if not found.sizes["prompt"]:
        raise Absent("no list is proven")
    return found


def heads_of(name: str) -> list[str]:
    """The heads that a path's name tells, such as 5.2 and 17.1 of ``mlp 3 → 5.2 → 17.1``."""
    return [part for part in name.split(" → ") if "." in part]


def _real(data: xr.Dataset) -> xr.Dataset:
    """The data of a run of SmolLM2 with lists of twenty paths."""
    if of_smollm2(data).attrs["k"] != 20:
        raise NotRun(f"k={data.attrs['k']}: the rows are about twenty paths")
    return data


def certificate(data: xr.Dataset) -> Figure:
    """Decrease of the bound, and the orders of the listed paths."""
    figure, axes = new_figure(1, 2, height=2.4)
    bound, orders = axes[0]
    for kind, colour in KINDS.items():
        rows = data.isel(prompt=np.flatnonzero(data.kind.values == kind))
        for gap in rows.gap.values:
            bound.plot(data.evaluations, gap, color=colour, linewidth=0.3, alpha=0.5)
        middle = rows.gap.median("prompt")
        bound.plot(data.evaluations, middle, color=colour, linewidth=1.5, label=f"{kind}, median")
    reference_line(bound, y=1, label="proof")
    bound.set(xscale="log", yscale="log", xlabel="paths evaluated")
    bound.set_ylim(bottom=0.2)  # room for the legend
    bound.set(ylabel=f"bound over value {data.sizes['rank']}", title="Bound on all other paths")
    bound.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    bound.yaxis.set_major_formatter("{x:g}")
    bound.yaxis.set_minor_locator(NullLocator())
    bound.legend(fontsize=6, loc="lower left")
    shown = ((data.order_sum, GREY, -0.2, "all paths"), (data.order_found, GREEN, 0.2, "listed"))
    for sums, colour, shift, label in shown:
        rows = sums.transpose("order", "prompt").values
        mean_bars(orders, rows, colour, shift=shift, width=0.38, label=label)
    zero_line(orders)
    last = data.sizes["order"] - 1
    orders.set_xticks(range(last + 1), [*map(str, range(last)), f"≥{last}"])
    orders.set(xlabel="heads on the path", ylabel="sum of paths, logits")
    orders.set_title("Where the lead comes from")
    orders.legend(fontsize=6)
    letter_panels(axes[0])
    n, n_proven = data.sizes["prompt"], int(data.complete.sum())
    what = model_read(data.attrs)
    sample_note(figure, f"{what}: {n_proven} of {n} prompts proven; b: mean and 95 % t interval")
    return figure


def attribution(data: xr.Dataset) -> Figure:
    """Heads missed by scores, and one list with the paths that gradients hide."""
    figure, axes = new_figure(1, 2, height=3.0, width_ratios=(1.3, 1))
    shares, example = axes[0]
    sure = data.isel(prompt=np.flatnonzero(data.complete.values))
    for i, values in enumerate(sure.missed_heads.transpose("score", ...).values):
        if np.isfinite(values).any():
            seed_column(shares, i, values[np.isfinite(values)], BLUE, form=".2f", size=5)
    names = [str(score).replace(" ", "\n") for score in data.score.values]
    shares.set_xticks(range(len(names)), names)
    shares.set(ylabel="share of heads missed", ylim=(-0.04, 1.19), title="What scores leave out")
    one = data.isel(prompt=0)
    names = [str(name) for name in one.path.values if name]
    places = np.arange(len(names))
    colours = [
        (ORANGE if hidden else BLUE) if heads_of(name) else GREY
        for name, hidden in zip(names, one.hidden.values, strict=False)
    ]
    example.barh(places, one.value.values[: len(names)], color=colours)
    example.set_yticks(places, names, fontsize=6)
    example.invert_yaxis()
    zero_line(example, vertical=True)
    example.set(xlabel="adds to the lead, logits", title=f"A list: {one.kind.item()}")
    marks = {"not named": ORANGE, "all named": BLUE, "no head": GREY}
    example.legend(
        handles=[Patch(color=colour, label=label) for label, colour in marks.items()],
        fontsize=6,
        title="heads, by gradient",
        title_fontsize=6,
    )
    letter_panels(axes[0])
    what = model_read(data.attrs)
    sample_note(
        figure,
        f"{what}; a: {sure.sizes['prompt']} prompts, mean and 95 % t interval; b: the first",
    )
    return figure
