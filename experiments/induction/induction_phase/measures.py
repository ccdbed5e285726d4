"""Measured values of the claims on the phase change, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import Estimate, mean_estimate, share_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.members import members_where
from circuitax.records.null_samples import exchanged, regrouped
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.resampled import resampled_estimate
from experiments.induction.shared.phase_change import has_changed, jump_share, last_score

# A curve has a bump if the whole loss falls by this much more in a sixth of training than in an
# earlier one; a bag of the words seen so far makes none.
BUMP_NATS = 0.3
BOTH = "2 layers, smeared"


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    one, two, smeared, both = (
        members_where(record.data.sel(arm=arm))
        for arm in ("1 layer", "2 layers", "1 layer, smeared", BOTH)
    )
    enough, usual = record.notes["prefix_score"], last_score(two)
    end_of_one, end_of_two = one.isel(step=-1), two.isel(step=-1)
    measured = {
        "phase-two-layers": share_estimate(has_changed(two, usual)),
        "phase-share": mean_estimate(jump_share(two)),
        "phase-one-layer": share_estimate(has_changed(one, usual)),
        "phase-smeared": share_estimate(has_changed(smeared, usual)),
        "phase-smeared-earlier": difference_estimate(both.in_context_middle, two.in_context_middle),
        "prefix-two-layers": share_estimate(end_of_two.best_prefix >= enough),
        "prefix-one-layer": share_estimate(end_of_one.best_prefix >= enough),
        "icl-depth": difference_estimate(end_of_one.in_context, end_of_two.in_context),
        "bump-two-layers": share_estimate(two.bump >= BUMP_NATS),
        "bump-one-layer": share_estimate(one.bump >= BUMP_NATS),
        "together-prefix": _inside(two, two.best_prefix_middle, usual),
        "together-previous": _inside(two, two.best_previous_middle, usual),
        "previous-dissolves": mean_estimate(
            end_of_two.best_previous_new - end_of_two.best_previous_again
        ),
        "index-two-layers": mean_estimate(two.slope_after - two.slope_before),
        "index-one-layer": mean_estimate(one.slope_after - one.slope_before),
        "pairs-phase": pairs_alike(two),
        "pivot-two-layers": mean_estimate(turns(two)),
        "pivot-one-layer": mean_estimate(turns(one)),
        **{f"trace-{name}": mean_estimate(rise) for name, rise in _traces(two).items()},
        "ablation-induction": mean_estimate(lost_without(end_of_two, "prefix-matching heads")),
        "ablation-others": mean_estimate(lost_without(end_of_two, "all others")),
    }
    return Measured(measured, {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: one layer for two and two for one, other seeds, heads and labels."""
    one, two, both = (
        members_where(record.data.sel(arm=arm)) for arm in ("1 layer", "2 layers", BOTH)
    )
    enough, usual = record.notes["prefix_score"], last_score(two)
    start, end_of_one, end_of_two = two.isel(step=0), one.isel(step=-1), two.isel(step=-1)
    changed_one, changed_two = (share_estimate(has_changed(part, usual)) for part in (one, two))
    middles = ("best_prefix_middle", "best_previous_middle")
    prefix, previous = (
        [
            _inside(two, two[name].roll(member=by, roll_coords=False), usual)
            for by in range(1, two.sizes["member"])
        ]
        for name in middles
    )
    return {
        "untrained": {"prefix-two-layers": [share_estimate(start.best_prefix >= enough)]},
        "mismatched": {
            "phase-two-layers": [changed_one],
            "phase-smeared": [changed_one],
            "phase-one-layer": [changed_two],
            "phase-share": [mean_estimate(jump_share(one))],
            # As many heads as one layer has: more would have more chances.
            "prefix-one-layer": [
                share_estimate(end_of_two.prefix.isel(layer=1).max("head") >= enough)
            ],
            "bump-two-layers": [share_estimate(one.bump >= BUMP_NATS)],
            "bump-one-layer": [share_estimate(two.bump >= BUMP_NATS)],
            "together-prefix": prefix or [None],
            "together-previous": previous or [None],
            "index-two-layers": [mean_estimate(one.slope_after - one.slope_before)],
            "index-one-layer": [mean_estimate(two.slope_after - two.slope_before)],
            "ablation-induction": [mean_estimate(lost_without(end_of_two, "all others"))],
            "pairs-phase": [
                pairs_alike(one),
            ],
            "pivot-two-layers": [mean_estimate(turns(one))],
            "pivot-one-layer": [mean_estimate(turns(two))],
            "trace-keys": [mean_estimate(_traces(two, other=True)["keys"])],
        },
        "permuted": {
            "phase-smeared-earlier": regrouped(both.in_context_middle, two.in_context_middle),
            "icl-depth": regrouped(end_of_one.in_context, end_of_two.in_context),
        }
        | exchanged(
            {
                "previous-dissolves": end_of_two.best_previous_new - end_of_two.best_previous_again,
                "trace-values": _traces(two)["values"],
                "ablation-others": lost_without(end_of_two, "all others"),
            }
        ),
    }


def _inside(members: xr.Dataset, middle: xr.DataArray, usual: float) -> Estimate:
    """Share of members for which a time lies within their phase change."""
    within = (middle >= members.jump_start) & (middle <= members.jump_end)
    return share_estimate(within & has_changed(members, usual))


def lost_without(at_end: xr.Dataset, group: str) -> xr.DataArray:
    """Share of the in-context score that is lost without a group of heads, patterns held."""
    left = at_end.ablated_group.sel(ablation="patterns held", group=group)
    return 1 - left / at_end.in_context


def pair_scores(members: xr.Dataset) -> xr.DataArray:
    """In-context score at the end for each pair of positions, ``[member, late, early]``, in nats.

    Early positions are those before any repeat, late ones those by which every text repeats.
    """
    losses = members.loss_by_position.isel(step=-1).drop_vars("index")
    early = losses.isel(position=slice(0, int(members.first_repeat) - 1))
    late = losses.isel(position=slice(int(members.every_text_repeats), None))
    return early.rename(position="early") - late.rename(position="late")


@measures("pairs-phase")
def pairs_alike(members: xr.Dataset) -> Estimate:
    """Least score of a pair of positions over the greatest, of the means over members."""
    scores = pair_scores(members).transpose("member", ...).values

    def alike(chosen: np.ndarray) -> float:
        means = scores[chosen].mean(axis=0)
        return float(means.min() / means.max())

    return resampled_estimate(alike, len(scores))


def turns(members: xr.Dataset) -> xr.DataArray:
    """Turning angle of each member's trajectory at the start of its phase change, in degrees."""
    places = members.trajectory
    start, middle, end = (
        places.isel(step=0),
        *(_at(places, members[f"jump_{edge}"]) for edge in ("start", "end")),
    )
    before, through = middle - start, end - middle
    lengths = np.sqrt((before**2).sum("component") * (through**2).sum("component"))
    cosine = (before * through).sum("component") / lengths.where(lengths > 0)
    # A change that begins with training has no way before it, and no turn.
    return np.degrees(np.arccos(cosine.clip(-1, 1))).fillna(0)


def _traces(members: xr.Dataset, other: bool = False) -> dict[str, xr.DataArray]:
    """Rise of both eigenvalue scores of the induction circuit within the phase change.

    With ``other``, through the first-layer head that looks least at the previous token.
    """
    end = members.isel(step=-1, drop=True)
    looks_back = end.previous.isel(layer=0)
    writer = looks_back.argmin("head") if other else looks_back.argmax("head")
    reader = end.prefix.isel(layer=1).argmax("head")
    curves = {
        "keys": members.matching.isel(writer=writer, reader=reader),
        "values": members.copying.isel(layer=1, head=reader),
    }
    return {
        name: _at(curve, members.jump_end) - _at(curve, members.jump_start)
        for name, curve in curves.items()
    }


def _at(curve: xr.DataArray, step: xr.DataArray) -> xr.DataArray:
    """A curve of every member at a step of its own, interpolated linearly."""
    return curve.interp(step=step).drop_vars("step")
