"""The largest paths of a real model and their proofs: what is read from the record, and figures."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from circuitax.figures.marks import reference_line, seed_column
from circuitax.figures.palette import BLUE, TEXT_COLOURS
from circuitax.figures.style import COLUMN, new_figure, sample_note
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
    """Decrease of the bound on all paths that are not listed."""
    figure, axes = new_figure(1, 1, height=2.4, width=COLUMN)
    bound = axes[0, 0]
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
    n, n_proven = data.sizes["prompt"], int(data.complete.sum())
    sample_note(figure, f"{model_read(data.attrs)}: {n_proven} of {n} prompts proven")
    return figure


def attribution(data: xr.Dataset) -> Figure:
    """Share of the heads on the largest paths that each score misses."""
    figure, axes = new_figure(1, 1, height=2.6, width=COLUMN)
    shares, sure = axes[0, 0], data.isel(prompt=np.flatnonzero(data.complete.values))
    for i, values in enumerate(sure.missed_heads.transpose("score", ...).values):
        if np.isfinite(values).any():
            seed_column(shares, i, values[np.isfinite(values)], BLUE, form=".2f", size=5)
    names = [str(score).replace(" ", "\n") for score in data.score.values]
    shares.set_xticks(range(len(names)), names)
    shares.set(ylabel="share of heads missed", ylim=(-0.04, 1.19))
    what = model_read(data.attrs)
    sample_note(figure, f"{what}, {sure.sizes['prompt']} prompts: mean and 95 % t interval")
    return figure
