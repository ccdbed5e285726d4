"""Markov chains in context: phases by the nearest predictor, dates, and the figure."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, mean_curve
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.record import members_where
from circuitax.records.sample import Absent, Sample, difference_of, mean_of, share_of

COLOURS = {"uniform": GREY, "unigram": BLUE, "bigram": ORANGE, "trigram": GREEN}
LOOKS = (
    ("previous", 0, BLUE, "layer 1, token before"),
    ("matching", -1, ORANGE, "last, behind copies"),
)
ARMS = ("1 layer", "2 layers", "2 layers, even", "2 layers, order 2")
# A phase is what a model is nearest to in at least so many measurements on end.
LEAST = 2


def share_in_order(data: xr.Dataset, arm: str, phases: tuple[str, ...]) -> Sample:
    """Share of models that are nearest to each of the predictors in turn, and to no other."""
    return share_of([run == tuple(phases) for run in _phases(_arm(data, arm))])


def share_ending(data: xr.Dataset, arm: str, predictor: str) -> Sample:
    """Share of models that are nearest to a predictor at the end of training."""
    return share_of(_nearest(_arm(data, arm)).isel(step=-1) == predictor)


def apart(data: xr.Dataset, arm: str, predictor: str) -> Sample:
    """Divergence from a predictor at the end of training, nats a token."""
    return mean_of(_arm(data, arm).distance.sel(predictor=predictor).isel(step=-1))


def left(data: xr.Dataset, arm: str, predictor: str) -> Sample:
    """Divergence from a predictor at the end of training, over that at its start."""
    distance = _arm(data, arm).distance.sel(predictor=predictor)
    return mean_of(distance.isel(step=-1) / distance.isel(step=0))


def earlier_when_even(data: xr.Dataset) -> Sample:
    """Steps until half of the way to the pairs is gone, where symbols are even less where not."""
    return difference_of(*(_date(_arm(data, arm)) for arm in (ARMS[2], ARMS[1])))


def second_layer_first(data: xr.Dataset) -> Sample:
    """Steps to half of the rise of matching in layer 2, less those of attention back in layer 1."""
    members = _arm(data, ARMS[1])
    return difference_of(members.matching_date, members.previous_date)


def _date(members: xr.Dataset) -> xr.DataArray:
    """The step at which half of the way from the first to the last divergence is gone."""
    curve = members.distance.sel(predictor="bigram")
    first, last = curve.isel(step=0), curve.isel(step=-1)
    if not bool((last < first).all()):
        raise Absent("a model did not come nearer to counts of pairs")
    done = (first - curve) / (first - last)
    return done.step[(done >= 0.5).argmax("step")]


def _nearest(members: xr.Dataset) -> xr.DataArray:
    """The predictor with the least divergence at every step of every model."""
    distance = members.distance.fillna(np.inf)
    return distance.predictor[distance.argmin("predictor")]


def _phases(members: xr.Dataset) -> list[tuple[str, ...]]:
    """The predictors to which each model is nearest in turn, without those of one measurement."""
    found = []
    for row in _nearest(members).transpose("member", "step").values:
        starts = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
        lengths = np.diff(np.r_[starts, len(row)])
        kept = [str(row[start]) for start in starts[lengths >= LEAST]]
        found.append(tuple(p for i, p in enumerate(kept) if i == 0 or p != kept[i - 1]))
    return found


def _arm(data: xr.Dataset, arm: str) -> xr.Dataset:
    return members_where(data.sel(arm=arm, drop=True))


def phases(data: xr.Dataset) -> Figure:
    """Divergence from each predictor over training, an arm a panel; below, what heads attend to."""
    figure, axes = new_figure(2, len(ARMS), height=3.6, sharex=True, sharey="row")
    for column, arm in zip(axes.T, ARMS, strict=True):
        members = _arm(data, arm)
        for name, colour in COLOURS.items():
            curve = members.distance.sel(predictor=name).transpose("step", "member")
            if np.isfinite(curve).all():
                mean_curve(column[0], data.step, curve, colour, label=name)
        column[0].set(title=arm, yscale="log")
        for name, layer, colour, label in LOOKS:
            curve = members[name].isel(layer=layer).transpose("step", "member")
            if np.isfinite(curve).all():
                mean_curve(column[1], data.step, curve, colour, label=label)
        column[1].set(xscale="symlog", xlabel="step")
    axes[0, 0].set_ylabel("divergence, nats")
    axes[1, 0].set_ylabel("attention")
    handles = axes[1, 1].get_legend_handles_labels()
    axes[1, 0].legend(*handles, loc="upper left", fontsize=6)  # where no curve rises
    legend_above(figure, axes[0, -1], columns=5)
    letter_panels(axes.flat)
    sample_note(figure, f"mean and 95 % interval of {data.sizes['member']} seeds")
    return figure
