"""Measured values of the claims on the phase change, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import Estimate, mean_estimate, share_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.members import members_where
from circuitax.records.null_draws import beside
from circuitax.records.null_samples import exchanged, regrouped
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.resampled import resampled_estimate
from experiments.induction.shared.phase_change import (
    JUMP_WINDOW,
    PRINTED_WINDOW,
    SMALL_WINDOW,
    falls_within,
    faster_than_beside,
    has_changed,
    jump_share,
    last_score,
    most_beside,
    of_size,
    sudden,
)

# Two layers have a bump if the whole loss falls by this much more in a sixth of training than in
# others; a bag of the words seen so far makes none.
BUMP_NATS = 0.3
# By these shares of training, loss curves are moved against the jump in the null of a bump in it.
MOVES = (-1 / 4, -3 / 20, -1 / 10, 1 / 10, 3 / 20, 1 / 4, 3 / 8)
# Of the fall of one layer, this is made at once at these places in the null of its having no bump.
AT_ONCE, PLACES = 0.4, (0.1, 0.2, 0.5)
BOTH = "2 layers, smeared"
# Of a phase change: a sixth of training is wide enough to hold one time of all seeds.
MIDDLE = (1 / 4, 3 / 4)


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    one, two, smeared, both = (
        members_where(record.data.sel(arm=arm))
        for arm in ("1 layer", "2 layers", "1 layer, smeared", BOTH)
    )
    enough, usual = record.notes["prefix_score"], last_score(two)
    end_of_one, end_of_two = one.isel(step=-1), two.isel(step=-1)
    shares = [end.in_context / usual for end in (end_of_one, end_of_two)]
    one_beside, two_beside = side_by_side(record.data)
    measured = {
        "phase-two-layers": share_estimate(has_changed(two, usual)),
        "phase-share": least_share(two),
        "phase-one-layer": share_estimate(jumps_at_all(one)),
        "phase-smeared": share_estimate(has_changed(smeared, usual)),
        "phase-smeared-earlier": difference_estimate(both.in_context_middle, two.in_context_middle),
        "prefix-two-layers": share_estimate(end_of_two.best_prefix >= enough),
        "prefix-one-layer": share_estimate(end_of_one.best_prefix >= enough),
        "icl-depth": difference_estimate(*shares),
        "bump-two-layers": share_estimate(one_bump(two)),
        "bump-one-layer": share_estimate(bends(one.loss)),
        "together-prefix": _together(two, two, usual),
        "together-previous": _inside(two, two.best_previous_middle, usual),
        "previous-dissolves": mean_estimate(
            end_of_two.best_previous_new - end_of_two.best_previous_again
        ),
        "index-two-layers": steepening(two),
        "index-one-layer": most_steepened(one),
        "pairs-phase": pairs_alike(two, smeared, both),
        "pivot-two-layers": turns(two, two),
        "pivot-one-layer": turns(one_beside, two_beside),
        **{f"trace-{name}": mean_estimate(rise) for name, rise in _traces(two).items()},
        "ablation-induction": mean_estimate(lost_without(end_of_two, "prefix-matching heads")),
        "ablation-others": mean_estimate(lost_without(end_of_two, "all others")),
    }
    return Measured(measured, {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: one layer for two and two for one, other seeds, heads and labels."""
    one, two, smeared, both = (
        members_where(record.data.sel(arm=arm))
        for arm in ("1 layer", "2 layers", "1 layer, smeared", BOTH)
    )
    one_beside, two_beside = side_by_side(record.data)
    enough, usual = record.notes["prefix_score"], last_score(two)
    start, end_of_one, end_of_two = two.isel(step=0), one.isel(step=-1), two.isel(step=-1)
    shares = [end.in_context / usual for end in (end_of_one, end_of_two)]
    # Gains as large, that form as that of one layer does or speed up to the end.
    as_large = {
        name: [
            share_estimate(has_changed(world, usual))
            for world in (of_size(one, last_score(part)), growing(part))
        ]
        for name, part in (("phase-two-layers", two), ("phase-smeared", smeared))
    }
    half, whole = (one.jump_start + one.jump_end) / 2, end_of_one.in_context.drop_vars("step")
    at_once = one.assign(in_context=whole * (one.step >= half))
    shifts = range(1, two.sizes["member"])
    rolled = [two.roll(member=by, roll_coords=False) for by in shifts]
    each = (two.isel(member=np.full(two.sizes["member"], i)) for i in range(two.sizes["member"]))
    return {
        "untrained": {"prefix-two-layers": [share_estimate(start.best_prefix >= enough)]},
        "mismatched": {
            "phase-share": [least_share(one)],
            # As many heads as one layer has: more would have more chances.
            "prefix-one-layer": [
                share_estimate(end_of_two.prefix.isel(layer=1).max("head") >= enough)
            ],
            "together-prefix": beside(
                (_together(two, other, usual) for other in (*rolled, *each)),
                [_together(two, _evenly(two), usual)],
            ),
            "together-previous": [
                _inside(two, other.best_previous_middle, usual) for other in rolled
            ]
            or [None],
            "index-two-layers": [steepening(one)],
            "index-one-layer": [most_steepened(two)],
            "ablation-induction": [mean_estimate(lost_without(end_of_two, "all others"))],
            "pairs-phase": [pairs_alike(one, smeared, both)],
            "pivot-two-layers": [turns(one_beside, two_beside)],
            "pivot-one-layer": [turns(two, two)],
            "trace-keys": [mean_estimate(_traces(two, other=True)["keys"])],
        },
        "false world": as_large
        | {
            "phase-one-layer": [
                share_estimate(jumps_at_all(world))
                for world in (at_once, as_early(two_beside, one_beside, "in_context"))
            ],
            "bump-two-layers": [
                share_estimate(one_bump(world)) for world in (one, *without_one_bump(two))
            ],
            "bump-one-layer": [
                share_estimate(bends(loss))
                for loss in (
                    two.loss,
                    as_early(two_beside, one_beside, "loss").loss,
                    *(partly_at_once(one.loss, place) for place in PLACES),
                )
            ],
        },
        "permuted": {
            "phase-smeared-earlier": regrouped(both.in_context_middle, two.in_context_middle),
            "icl-depth": regrouped(*shares),
        }
        | exchanged(
            {
                "previous-dissolves": end_of_two.best_previous_new - end_of_two.best_previous_again,
                "trace-values": _traces(two)["values"],
                "ablation-others": lost_without(end_of_two, "all others"),
            }
        ),
    }


def jumps_at_all(members: xr.Dataset) -> xr.DataArray:
    """Mask of members whose in-context score is `sudden`, of what it ends with."""
    return sudden(members.in_context, -members.in_context.isel(step=-1))


def bends(loss: xr.DataArray) -> xr.DataArray:
    """Mask of losses with a bump of their own size: they are `sudden`, of all that they fall by."""
    return sudden(loss, loss.isel(step=0, drop=True) - loss.isel(step=-1, drop=True))


def one_bump(members: xr.Dataset) -> xr.DataArray:
    """Mask of members whose loss has a bump where their in-context score jumps, and no other.

    It falls fastest against the sixths on both sides in one that begins within half of one of the
    jump's, and speeds up neither before nor after that.
    """
    excess = faster_than_beside(members.loss)
    way = excess.step[excess.argmax("step")] - members.jump_start
    near = np.abs(way) <= JUMP_WINDOW / 2 * float(members.step[-1] - members.step[0])
    rest = most_beside(members.loss, members.jump_start, members.jump_end)
    return (excess.max("step") >= BUMP_NATS) & near & (rest < BUMP_NATS)


def without_one_bump(members: xr.Dataset) -> list[xr.Dataset]:
    """Members whose loss falls with the fourth power of time, in two bumps, or at other times."""
    loss, steps = members.loss, members.step
    whole = float(steps[-1] - steps[0])
    at_fourth = _falling(loss, ((steps - steps[0]) / whole) ** 4)
    # Each half of training has the whole curve in it, and half of its fall.
    twice = [_retimed(loss, 2 * (steps - steps[0]) + steps[0] - late * whole) for late in (0, 1)]
    moved = (_retimed(loss, steps - by * whole) for by in MOVES)
    return [members.assign(loss=curve) for curve in (at_fourth, sum(twice) / 2, *moved)]


def growing(members: xr.Dataset) -> xr.Dataset:
    """Members whose in-context score grows to the same end with the fourth power of time."""
    share = (members.step - members.step[0]) / (members.step[-1] - members.step[0])
    return members.assign(in_context=members.in_context.isel(step=-1, drop=True) * share**4)


def as_early(members: xr.Dataset, others: xr.Dataset, name: str) -> xr.Dataset:
    """Members whose curve runs so fast that it is half way when that of the other member is."""
    faster = members[f"{name}_middle"] / others[f"{name}_middle"]
    return members.assign({name: _retimed(members[name], members.step * faster)})


def _retimed(curve: xr.DataArray, times: xr.DataArray) -> xr.DataArray:
    """A curve as it was at other times; before its start and after its end it is level."""
    first, last = float(curve.step[0]), float(curve.step[-1])
    steps = times.clip(first, last).rename(step="at")
    return curve.interp(step=steps).drop_vars("step").rename(at="step")


def _falling(loss: xr.DataArray, share: xr.DataArray) -> xr.DataArray:
    """Losses that fall by as much in all, of which they have fallen by this share at each step."""
    start, end = loss.isel(step=0, drop=True), loss.isel(step=-1, drop=True)
    return start + (end - start) * share


def partly_at_once(loss: xr.DataArray, place: float) -> xr.DataArray:
    """Losses of which `AT_ONCE` of the fall is made in one step, at a share of training."""
    return (1 - AT_ONCE) * loss + AT_ONCE * _falling(loss, loss.step > place * loss.step[-1])


def _place(members: xr.Dataset, time: xr.DataArray) -> xr.DataArray:
    """A time within the phase change of members, which begins at 0 and ends at 1."""
    return (time - members.jump_start) / (members.jump_end - members.jump_start)


def _inside(members: xr.Dataset, middle: xr.DataArray, usual: float) -> Estimate:
    """Share of members for which a time lies within their phase change."""
    place = _place(members, middle)
    return share_estimate((place >= 0) & (place <= 1) & has_changed(members, usual))


def _evenly(members: xr.Dataset) -> xr.Dataset:
    """Members whose prefix matching grows evenly from nothing, half way when it was."""
    share = (members.step / (2 * members.best_prefix_middle)).clip(max=1)
    return members.assign(best_prefix=members.best_prefix.isel(step=-1, drop=True) * share)


@measures("together-prefix")
def _together(members: xr.Dataset, others: xr.Dataset, usual: float) -> Estimate:
    """Share of members in whose phase change the prefix matching of others rises.

    It is half way in the middle half, and makes at least half of its rise in the whole.
    """
    place = _place(members, others.best_prefix_middle)
    start, end = (
        others.best_prefix.interp(step=time) for time in (members.jump_start, members.jump_end)
    )
    rise = others.best_prefix.isel(step=-1) - others.best_prefix.isel(step=0)
    within = (place >= MIDDLE[0]) & (place <= MIDDLE[1]) & (rise > 0) & (end - start >= rise / 2)
    return share_estimate(within & has_changed(members, usual))


@measures("phase-share")
def least_share(members: xr.Dataset) -> Estimate:
    """Mean of the lesser of a member's gains in context, over its score, in both windows."""
    wide, narrow = (jump_share(members, window) for window in (PRINTED_WINDOW, SMALL_WINDOW))
    return mean_estimate(wide.where(wide < narrow, narrow))


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
def pairs_alike(*kinds: xr.Dataset) -> Estimate:
    """Least over greatest score of kinds of model, at the pair of positions where it is least.

    ``min over pairs of (min over kinds of s) / (max over kinds of s)``, ``s`` the mean score over
    the members of a kind.
    """
    scores = [pair_scores(members).transpose("member", ...).values for members in kinds]

    def alike(*chosen: np.ndarray) -> float:
        means = [score[i].mean(axis=0) for score, i in zip(scores, chosen, strict=True)]
        return float((np.min(means, axis=0) / np.max(means, axis=0)).min())

    return resampled_estimate(alike, *(len(score) for score in scores))


@measures("index-two-layers")
def steepening(members: xr.Dataset) -> Estimate:
    """Mean change of a member's slope of the loss by ln(token index) through its phase change."""
    slope = _slopes(members)
    return mean_estimate(_at(slope, members.jump_end) - _at(slope, members.jump_start))


@measures("index-one-layer")
def most_steepened(members: xr.Dataset) -> Estimate:
    """Mean change of a member's slope in the sixth of training in which that slope falls most."""
    return mean_estimate(-falls_within(_slopes(members), JUMP_WINDOW).max("step"))


def _slopes(members: xr.Dataset) -> xr.DataArray:
    """Slope of the loss by ln(token index) where every text repeats, in nats, ``[step, member]``.

    That of `circuits.losses.loss_slope`, of which the record keeps single members at the beginning
    of the change and at the end of training alone.
    """
    at = int(members.every_text_repeats) - 1
    index, place = np.log(members["index"].values), np.arange(members.sizes["position"])
    near = (np.abs(index - index[at]) <= np.log(2) / 2) | (np.abs(place - at) <= 1)
    losses = members.loss_by_position.isel(position=near).transpose("position", "step", "member")
    lines = np.polyfit(index[near], losses.values.reshape(near.sum(), -1), 1)[0]
    return losses.isel(position=0, drop=True).copy(data=lines.reshape(losses.shape[1:]))


def side_by_side(data: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """Members of one and of two layers with the same texts, where both stayed finite."""
    arms = [data.sel(arm=arm, drop=True) for arm in ("1 layer", "2 layers")]
    both = arms[0].alive & arms[1].alive
    return members_where(arms[0], both), members_where(arms[1], both)


@measures("pivot-*")
def turns(members: xr.Dataset, changing: xr.Dataset) -> Estimate:
    """Mean angle between a trajectory's way to a phase change and its way on from it, in degrees.

    Args:
        members: With ``trajectory`` ``[step, member, component]``.
        changing: Whose phase changes are taken, of as many members; these members or others.
    """
    places = members.trajectory
    start, end = (_at(places, changing[f"jump_{edge}"]) for edge in ("start", "end"))
    before, after = start - places.isel(step=0), places.isel(step=-1) - end
    lengths = np.sqrt((before**2).sum("component") * (after**2).sum("component"))
    cosine = (before * after).sum("component") / lengths.where(lengths > 0)
    # A change that begins or ends with training has a way on one side alone, and no turn.
    return mean_estimate(np.degrees(np.arccos(cosine.clip(-1, 1))).fillna(0))


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
