"""What the phase change is held against, fixed before the first run, and how it is measured."""

import numpy as np
import xarray as xr

from circuitax.records.claims import Claim, Expected, at_least, at_most
from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import Estimate, mean_estimate, proportion_estimate

# A seed has a phase change if context comes to save a nat within a sixth of its training, while
# its whole loss starts to fall faster than before; a bag of the words seen so far does neither.
JUMP_NATS = 1.0
BUMP_NATS = 0.3
PREFIX_SCORE = 0.4


def _claim(
    id: str, statement: str, expected: Expected, why: str, source: str, explanation: str = ""
) -> Claim:
    return Claim(id=id, source=f"induction-heads paper, {source}", statement=statement,
                 quantity=id, expected=expected, why=why, kind="shape", n=16,
                 selection="all seeds that stayed finite; each its own data",
                 explanation=explanation)  # fmt: skip


MOST = "95 % interval of a proportion; 16 of 16 give a lower end of 0.81, 15 of 16 of 0.72"
NONE = "95 % interval of a proportion; 0 of 16 give an upper end of 0.19"
PILOT = "threshold from pilot runs with other keys, far from both groups"
CLAIMS = (
    _claim("phase-two-layers", "Share of two-layer models with a phase change in the in-context "
           "score", at_least(0.75), MOST, "in-context score over training (O1)"),
    _claim("phase-one-layer", "Share of one-layer models with a phase change", at_most(0.25), NONE,
           "in-context score over training (O1)"),
    _claim("phase-smeared", "Share of one-layer models with smeared keys with a phase change",
           at_least(0.75), MOST, "smeared keys (O7)"),
    _claim("phase-smeared-earlier", "Half of the in-context gain of two-layer models comes earlier "
           "with smeared keys than without: difference in steps", at_most(0), "a relation",
           "smeared keys (O7)", "no difference is seen: with 32 symbols and two heads a layer, a "
           "previous-token head forms as fast as keys learn to be smeared"),
    _claim("prefix-two-layers", "Share of two-layer models with a prefix-matching head (score over "
           "0.4)", at_least(0.75), MOST, "prefix matching over training (O3)"),
    _claim("prefix-one-layer", "Share of one-layer models with a prefix-matching head",
           at_most(0.25), NONE, "prefix matching over training (O3)"),
    _claim("icl-depth", "In-context score of one-layer minus that of two-layer models at the end, "
           "nats", at_least(1), PILOT, "in-context score over training (O1)"),
    _claim("bump-two-layers", "Share of two-layer models whose loss curve has a non-convex stretch "
           "(a sixth of training in which it falls 0.3 nats more than in an earlier sixth)",
           at_least(0.75), MOST, "loss curves (O4)"),
    _claim("bump-one-layer", "Share of one-layer models whose loss curve has a non-convex stretch",
           at_most(0.25), NONE, "loss curves (O4)"),
    _claim("together-prefix", "Share of two-layer models in which half of the prefix matching is "
           "reached within the phase change (the sixth of training where the in-context score "
           "falls most)", at_least(0.75), MOST, "simultaneity (argument 1)"),
    _claim("together-previous", "The same for the previous-token score of the first layer",
           at_least(0.75), MOST, "simultaneity (argument 1)",
           "15 of 16 seeds; the previous-token score starts to rise with the others, but goes on "
           "rising slowly after the phase change, so that its half way point comes last"),
    _claim("index-two-layers", "d loss / d ln(token index) of two-layer models at the index by "
           "which every text repeats, at the end minus before the phase change, nats: the loss now "
           "falls on along the text where it had stopped", at_most(-2), PILOT,
           "derivative of loss by log token index (O2)"),
    _claim("index-one-layer", "The same for one-layer models, whose loss never goes on like that",
           at_least(-2), PILOT, "derivative of loss by log token index (O2)"),
    _claim("ablation-induction", "Share of the in-context score of two-layer models that is lost "
           "without their prefix-matching heads, patterns held", at_least(0.9), PILOT,
           "ablations (O8)"),
    _claim("ablation-others", "Share lost without all other heads, patterns held: their own output "
           "does not help", at_most(0), "a relation; the paper: ablating most other heads raises "
           "the score", "ablations (O8)"),
)  # fmt: skip


def estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """Every number that a claim is about."""

    def arm(name: str) -> xr.Dataset:
        chosen = data.sel(arm=name)
        return chosen.isel(member=np.flatnonzero(chosen.alive.values))

    def share(yes: xr.DataArray) -> Estimate:
        return proportion_estimate(int(yes.sum()), yes.size)

    def inside(members: xr.Dataset, middle: xr.DataArray) -> Estimate:
        within = (middle >= members.jump_start) & (middle <= members.jump_end)
        return share(within & (members.jump >= JUMP_NATS))

    def gone(members: xr.Dataset, group: str) -> Estimate:
        left = members.ablated_group.sel(ablation="patterns held", group=group)
        return mean_estimate((1 - left / members.in_context.isel(step=-1)).values)

    one, two = arm("1 layer"), arm("2 layers")
    smeared, both = arm("1 layer, smeared"), arm("2 layers, smeared")
    last = {"step": -1}
    return {
        "phase-two-layers": share(two.jump >= JUMP_NATS),
        "phase-one-layer": share(one.jump >= JUMP_NATS),
        "phase-smeared": share(smeared.jump >= JUMP_NATS),
        "phase-smeared-earlier": difference_estimate(
            both.in_context_middle.values, two.in_context_middle.values
        ),
        "prefix-two-layers": share(two.best_prefix.isel(last) >= PREFIX_SCORE),
        "prefix-one-layer": share(one.best_prefix.isel(last) >= PREFIX_SCORE),
        "icl-depth": difference_estimate(
            one.in_context.isel(last).values, two.in_context.isel(last).values
        ),
        "bump-two-layers": share(two.bump >= BUMP_NATS),
        "bump-one-layer": share(one.bump >= BUMP_NATS),
        "together-prefix": inside(two, two.best_prefix_middle),
        "together-previous": inside(two, two.best_previous_middle),
        "index-two-layers": mean_estimate((two.slope_after - two.slope_before).values),
        "index-one-layer": mean_estimate((one.slope_after - one.slope_before).values),
        "ablation-induction": gone(two, "prefix-matching heads"),
        "ablation-others": gone(two, "all others"),
    }
