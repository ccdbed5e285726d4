"""What induction on real text is held against, fixed before the run that is judged."""

import numpy as np
import xarray as xr

from circuitax.records.claims import Claim, Expected, at_least, at_most
from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import Estimate, mean_estimate

# Layers, and whether training begins with windows that repeat themselves.
ARMS = {
    "2 layers": (2, False),
    "2 layers, primed": (2, True),
    "1 layer, primed": (1, True),
}
PRIMED, PLAIN, SINGLE = "2 layers, primed", "2 layers", "1 layer, primed"
PAPER = "induction-heads paper"


def _claim(id: str, statement: str, expected: Expected, why: str, source: str) -> Claim:
    return Claim(id, source, statement, id, expected,
                 f"{why}; threshold from pilots with another root key", "shape",
                 "all seeds that stayed finite; each its own data", 8)  # fmt: skip


CLAIMS = (
    _claim("text-induction-primed", "Two layers that begin with repeated windows and go on with "
           "plain text end with a prefix-matching head (mean score of the best head)",
           at_least(0.2), "a tenth is already far above uniform attention", f"{PAPER}, argument 1"),
    _claim("text-induction-plain", "Two layers on plain text alone have none at equal tokens",
           at_most(0.1), "uniform attention gives about 0.03", "circuitax, on the default corpus"),
    _claim("text-induction-one-layer", "One layer has none, with the same primer", at_most(0.1),
           "uniform attention gives about 0.03", f"{PAPER}, argument 1 (O3)"),
    _claim("text-induction-stays", "Plain text keeps the head: best prefix score at the end over "
           "that at the end of the primer", at_least(0.4), "a relation to none at all",
           "circuitax, on the default corpus"),
    _claim("text-induction-repeats", "On held-out text, where a pair of tokens comes again, primed "
           "models predict it better than plain ones: difference of loss, nats", at_least(0.5),
           "a relation", f"{PAPER}, argument 4 (copying on natural text, O6)"),
    _claim("text-induction-ablation", "Removing the best prefix-matching head of a primed model, "
           "under fixed patterns, costs repeated pairs more than other tokens: difference, nats",
           at_least(0.3), "a relation", f"{PAPER}, ablation (O8)"),
)  # fmt: skip


def estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """Means over seeds of what each claim names, and the price of the primer in held-out nats."""
    best = data.prefix.max(["layer", "head"])
    plain, primed, single = (_alive(data, arm) for arm in (PLAIN, PRIMED, SINGLE))
    last = {"step": -1}

    def score(members: xr.Dataset) -> Estimate:
        return mean_estimate(best.sel(arm=members.arm).isel(last).isel(member=members.index).values)

    def gap(name: str) -> Estimate:
        return difference_estimate(plain[name].isel(last).values, primed[name].isel(last).values)

    scores = best.sel(arm=PRIMED).isel(member=primed.index)
    stays = scores.isel(last) / scores.sel(step=int(data.primer))
    return {
        "text-induction-primed": score(primed),
        "text-induction-plain": score(plain),
        "text-induction-one-layer": score(single),
        "text-induction-stays": mean_estimate(stays.values),
        "text-induction-repeats": gap("loss_repeated"),
        "text-induction-ablation": mean_estimate(_margin(primed)),
        "gain-held-out": gap("loss"),
        "gain-new": gap("loss_new"),
    }


def _margin(members: xr.Dataset) -> np.ndarray:
    """Cost on repeated pairs minus cost on other tokens, of the best prefix-matching head."""
    end = members.isel(step=-1)
    repeated = members.ablated_loss_repeated - end.loss_repeated
    margin = repeated - (members.ablated_loss_new - end.loss_new)
    heads = ("layer", "head")
    best = end.prefix.stack(cell=heads).fillna(-1).argmax("cell")
    return margin.stack(cell=heads).isel(cell=best).values


def _alive(data: xr.Dataset, arm: str) -> xr.Dataset:
    chosen = data.sel(arm=arm)
    index = np.flatnonzero(chosen.alive.values)
    return chosen.isel(member=index).assign(index=("member", index))
