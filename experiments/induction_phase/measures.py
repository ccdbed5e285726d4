"""How the record of the phase change settles its claims."""

import xarray as xr

from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import Estimate, mean_estimate, share_estimate
from circuitax.records.measured import Measured
from circuitax.records.members import members_where
from circuitax.records.record import Record

# A seed has a phase change if context comes to save a nat within a sixth of its training, while
# its whole loss starts to fall faster than before; a bag of the words seen so far does neither.
JUMP_NATS = 1.0
BUMP_NATS = 0.3


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    one, two, smeared, both = (
        members_where(record.data.sel(arm=arm))
        for arm in ("1 layer", "2 layers", "1 layer, smeared", "2 layers, smeared")
    )
    enough = record.notes["prefix_score"]
    end_of_one, end_of_two = one.isel(step=-1), two.isel(step=-1)
    measured = {
        "phase-two-layers": share_estimate(two.jump >= JUMP_NATS),
        "phase-share": mean_estimate(
            two.jump / (two.in_context.isel(step=0) - two.in_context.isel(step=-1))
        ),
        "phase-one-layer": share_estimate(one.jump >= JUMP_NATS),
        "phase-smeared": share_estimate(smeared.jump >= JUMP_NATS),
        "phase-smeared-earlier": difference_estimate(both.in_context_middle, two.in_context_middle),
        "prefix-two-layers": share_estimate(end_of_two.best_prefix >= enough),
        "prefix-one-layer": share_estimate(end_of_one.best_prefix >= enough),
        "icl-depth": difference_estimate(end_of_one.in_context, end_of_two.in_context),
        "bump-two-layers": share_estimate(two.bump >= BUMP_NATS),
        "bump-one-layer": share_estimate(one.bump >= BUMP_NATS),
        "together-prefix": _inside(two, two.best_prefix_middle),
        "together-previous": _inside(two, two.best_previous_middle),
        "index-two-layers": mean_estimate(two.slope_after - two.slope_before),
        "index-one-layer": mean_estimate(one.slope_after - one.slope_before),
        "ablation-induction": _gone(end_of_two, "prefix-matching heads"),
        "ablation-others": _gone(end_of_two, "all others"),
    }
    return Measured(measured, {})


def _inside(members: xr.Dataset, middle: xr.DataArray) -> Estimate:
    """Share of members for which a time lies within their phase change."""
    within = (middle >= members.jump_start) & (middle <= members.jump_end)
    return share_estimate(within & (members.jump >= JUMP_NATS))


def _gone(at_end: xr.Dataset, group: str) -> Estimate:
    """Share of the in-context score that is lost without a group of heads, patterns held."""
    left = at_end.ablated_group.sel(ablation="patterns held", group=group)
    return mean_estimate(1 - left / at_end.in_context)
