"""What heads do by looking, by writing and by patching: claims, fixed before the first run.

Roles by the rules of `two_layer_claims`; the scores that name a head are from texts of their own.
"""

import numpy as np
import xarray as xr

from circuitax.records.claims import Claim, Expected, at_least, at_most
from circuitax.records.estimate import Estimate, exact, mean_estimate, proportion_estimate
from circuitax.records.head_roles import FOUND, MOST, PREFIX_SCORE, PREVIOUS_SCORE, roles

PATHS = "path patching (Goldowsky-Dill et al. 2023); framework paper, how induction heads work"
FULL = "all full transformers of text_models that stayed finite; each its own data"


def _claim(
    id: str, source: str, statement: str, expected: Expected, why: str, selection: str = FOUND,
    n: int = 8, kind: str = "shape", explanation: str = "",
) -> Claim:  # fmt: skip
    return Claim(id, source, statement, id, expected, why, kind, selection, n, explanation)


CLAIMS = (
    _claim("previous-through-keys", PATHS, "What the previous-token head tells the second layer "
           "goes through keys: lead won back by patching its edges into all keys, over that by "
           "patching all of its edges", at_least(0.9), "nearly all; more than half was expected "
           "before a pilot with another key gave 0.997"),
    _claim("edge-largest", PATHS, "Share of seeds in which, of all single edges of first-layer "
           "heads, the largest joins a previous-token head (score over 0.4) to the key of an "
           "induction head", at_least(0.6), MOST + "; nearly every head of the second layer "
           "inducts, so that writer and key are what is tested"),
    _claim("patching-moves", "activation patching (Meng et al. 2022); framework paper", "Before "
           "the second layer, which token stood there is read one position later: lead won back "
           "by patching the stream behind a swapped token, added up over the two, over that plus "
           "the lead won back at the tokens themselves", at_least(0.9), "nearly all; more than "
           "half was expected before a pilot with another key gave 1.00"),
    _claim("direct-largest", "direct logit attribution; S2, decomposition of the output", "Share "
           "of seeds in which, of all components, an induction head has the largest direct effect "
           "on the answer's lead", at_least(0.6), MOST + "; nearly every head of the second layer "
           "inducts, so that the layer is what is tested"),
    _claim("overlap-keys", "S4, read and write subspaces", "What the previous-token head can write "
           "is what the induction head's keys read, whatever the strengths: mean z of the overlap "
           "of subspaces against random ones", at_least(3), "three deviations, as for "
           "K-composition"),
    _claim("components-close", "S2, decomposition of the output", "Direct effects of all "
           "components and the bias add up to the logits, with MLPs and layer norms: greatest "
           "remainder over greatest logit", at_most(1e-4), "float32", FULL, 1, "identity"),
    _claim("norm-costs", "S0 section 2.3, assumption 3", "A layer norm is not linear: nats lost "
           "when every norm divides by a constant", at_least(0), "a relation", FULL, 3),
    _claim("norm-absorbed", "S0 section 2.3, assumption 3", "What its divisor does is "
           "approximately absorbed: those nats over what the model saves against a uniform guess",
           at_most(0.1), "a tenth: the source gives no number", FULL, 3,
           explanation="a little over a tenth of what these models save"),
    _claim("memory-writes-against", "S4, memory management; framework paper", "Training makes some "
           "head or MLP write against the stream: most negative mean cosine, after minus before",
           at_most(0), "a relation", FULL, 3,
           explanation="heads of the second layer do, by about a tenth, and three seeds leave an "
           "interval that reaches beyond 0; MLPs write along the stream"),
)  # fmt: skip


NEITHER, PREVIOUS, INDUCTION = range(3)


def named(data: xr.Dataset) -> xr.Dataset:
    """`roles` of each seed, and the role of every head: neither, previous-token, or induction."""
    data = roles(data)
    first, second = data.layer == 0, data.layer == 1
    role = xr.where(first & (data.previous > PREVIOUS_SCORE), PREVIOUS, NEITHER)
    role = xr.where(second & (data.prefix > PREFIX_SCORE), INDUCTION, role)
    return data.assign(role=role.transpose(*data.prefix.dims))


def estimates(data: xr.Dataset) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Measured values over the seeds that have the circuit, and the claims that lack it."""
    measured, unmet = _circuits(data.isel(member=np.flatnonzero(data.has_induction)))
    full = data.isel(full_member=np.flatnonzero(data.full_alive))
    if not full.sizes["full_member"]:
        why = "every full transformer has diverged"
        return measured, unmet | {c.id: why for c in CLAIMS if c.selection == FULL}
    worst = full.alignment_full.min("cell") - full.alignment_full_at_init.min("cell")
    return measured | {
        "components-close": exact(full.remainder_full.max()),
        "norm-costs": mean_estimate(full.norm_price),
        "norm-absorbed": mean_estimate(full.norm_price / (full.full_uniform - full.loss)),
        "memory-writes-against": mean_estimate(worst),
        "bandwidth-reused": mean_estimate(full.bandwidth_reused - full.bandwidth_null),
        "bandwidth-effective": mean_estimate(full.bandwidth_effective),
        "zero-above-mean": mean_estimate(
            (full.nats_lost.sel(replaced="zero") - full.nats_lost.sel(replaced="mean")).mean("cell")
        ),
    }, unmet


def _circuits(members: xr.Dataset) -> tuple[dict[str, Estimate], dict[str, str]]:
    """What is measured of seeds with an induction head."""
    n = members.sizes["member"]
    if n < 2:
        why = f"only {n} seeds have an induction head"
        return {}, {claim.id: why for claim in CLAIMS if claim.selection == FOUND}
    previous, induction = members.previous_head, members.induction_head
    routes = members.routes.isel(writer=previous)
    layer_1 = members.stream.sel(place="into layer 1")
    swapped = members.swapped.values
    at, behind = (layer_1.isel(position=swapped + k).sum("position") for k in (0, 1))
    heads = [f"head 1.{h}" for h in members["head"].values]
    inducing = members.role.isel(layer=1, drop=True) == INDUCTION
    inducing = inducing.rename(head="component").assign_coords(component=heads)
    best = members.direct.where(inducing)
    z = members.overlap_z.isel(writer=previous, reader=induction)
    measured = {
        "previous-through-keys": mean_estimate(routes.sel(route="K") / routes.sel(route="all")),
        "edge-largest": proportion_estimate(int(_largest_joins(members).sum()), n),
        "patching-moves": mean_estimate(behind / (behind + at)),
        "direct-largest": proportion_estimate(
            int((best.max("component") == members.direct.max("component")).sum()), n
        ),
        "overlap-keys": mean_estimate(z.sel(kind="K")),
        "moves-name": mean_estimate(members.moves_name.isel(layer=1, head=induction)),
        "virtual-size": mean_estimate(members.virtual.isel(writer=previous, reader=induction)),
    }
    return measured | {f"overlap-{k}": mean_estimate(z.sel(kind=k)) for k in "QV"}, {}


def _largest_joins(members: xr.Dataset) -> xr.DataArray:
    """Whether the largest single edge ends at a key of an induction head, from where it should."""
    role = members.role.drop_vars("head")
    writes = role.isel(layer=0, drop=True).rename(head="writer") == PREVIOUS
    reads = role.isel(layer=1, drop=True).rename(head="reader") == INDUCTION
    named = members.edges.sel(kind="K").where(writes & reads).max(["writer", "reader"])
    largest = np.maximum(
        members.edges.max(["writer", "kind", "reader"]),
        members.routes.sel(route="direct").max("writer"),
    )
    return named == largest
