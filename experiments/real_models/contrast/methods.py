"""Flows between two texts by many methods: rules, and points at which the pass is derived."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from circuitax.circuits.attribution import (
    Flows,
    contextual_flows,
    direct_multipliers,
    flows,
    flows_at,
    holding,
    multipliers,
    outputs,
)
from circuitax.circuits.patching import Ablation
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Rule
from circuitax.kernel.secants import secant, softmax_secant, stepwise

SECANT, STEPWISE, FIRST, OTHER, MEAN = (
    *("secant", "secant, stepwise softmax", "gradient at the text", "gradient at the other text"),
    "mean of both gradients",
)
SOFTMAX, HESSIAN = "mean gradient, softmax by its secant", "gradient and Hessian product"
STEPS = {"EAP-IG, 2 steps": 2, "EAP-IG, 5 steps": 5, "EAP-IG, 20 steps": 20}
CUTWISE, RELP, HELD, DIRECT = "IG at each cut, 5 steps", "RelP", "ledger", "direct effect"
PARTS = "CD-T"
# Passes forwards and backwards of one text; of IG at each cut for each, of CD-T for each place.
PASSES = {SECANT: 2, STEPWISE: 2, FIRST: 1, OTHER: 1, MEAN: 2, SOFTMAX: 2, HESSIAN: 3} | STEPS
PASSES |= {CUTWISE: 5, RELP: 2, HELD: 2, DIRECT: 0, PARTS: 1}
METHODS, RANDOM = tuple(PASSES), "random"
RANKED = (*(name for name in METHODS if name != CUTWISE), RANDOM)


@jax.jit
def all_flows(
    model: Model,
    texts: Int[Array, "pair 2 n_ctx"],
    asked: Int[Array, "pair 2"],
    cuts: Int[Array, " cut"],
) -> Flows:
    """Flows of `METHODS` for each pair, first text less second; NaN where a method has none."""
    return jax.lax.map(lambda pair: _flows_of_pair(model, pair[0], pair[1], cuts), (texts, asked))


def _flows_of_pair(
    model: Model, texts: Int[Array, "2 n_ctx"], asked: Int[Array, "2"], cuts: Int[Array, " cut"]
) -> Flows:
    less = jax.tree.map(jnp.subtract, *(outputs(model, text) for text in texts))
    still = jnp.zeros_like(less.streams)

    def of(rule: Rule) -> Flows:
        return flows(less, multipliers(model, texts, asked, still, rule))

    # The ends, and the middles of equal steps, at the embeddings; and such steps at each cut.
    middles = [(np.arange(n) + 0.5) / n for n in (*STEPS.values(), PASSES[CUTWISE])]
    parts = np.concatenate([[1.0, 0.0], *middles[:-1], *[middles[-1]] * cuts.size])
    ends = np.cumsum([2, *STEPS.values()]).tolist()
    places = jnp.concatenate([jnp.zeros(ends[-1], int), jnp.repeat(cuts, PASSES[CUTWISE])])
    found = flows_at(model, texts, asked, places, jnp.asarray(parts, still.dtype))

    def mean_of(start: int, stop: int) -> Flows:
        return jax.tree.map(lambda x: x[start:stop].mean(axis=0), found)

    # Along the whole difference of the embeddings, from the first text to the second.
    towards = still.at[0].set(-less.streams[0])
    tangents = jax.jvp(lambda by: multipliers(model, texts[:1], asked, by), (still,), (towards,))
    held = multipliers(model, texts, asked, still, holding(0))
    by_cut = found.cuts[ends[-1] :].reshape(cuts.size, -1, *still.shape[:2]).mean(axis=1)
    nothing = jax.tree.map(lambda x: jnp.full_like(x[0], jnp.nan), found)
    of_method = {
        SECANT: of(secant),
        STEPWISE: of(stepwise),
        FIRST: mean_of(0, 1),
        OTHER: mean_of(1, 2),
        MEAN: mean_of(0, 2),
        SOFTMAX: of(softmax_secant),
        HESSIAN: flows(less, jax.tree.map(lambda x, dx: x + dx / 2, *tangents)),
        **{name: mean_of(*group) for name, group in zip(STEPS, pairwise(ends), strict=True)},
        CUTWISE: nothing._replace(
            cuts=nothing.cuts.at[cuts].set(by_cut[jnp.arange(cuts.size), cuts])
        ),
        RELP: of(holding(0.5)),
        HELD: flows(less, held),
        DIRECT: flows(less, direct_multipliers(model, jnp.asarray(held.stream_add)[-1])),
        PARTS: contextual_flows(model, texts, asked, cuts),
    }
    return jax.tree.map(lambda *each: jnp.stack(each), *(of_method[name] for name in METHODS))


def largest_neurons(flows: Flows, n: int) -> Int[np.ndarray, "neuron 2"]:
    """Layer and place of the neurons with the largest mean flows by secants and by gradients."""
    both = [METHODS.index(name) for name in (SECANT, MEAN)]
    size = np.abs(np.asarray(flows.units)[:, both]).mean(axis=(0, 1))
    chosen = np.argsort(-size.ravel(), kind="stable")[:n]
    return np.stack(np.divmod(chosen, size.shape[1]), axis=-1)


def circuits_of(flows: Flows, sizes: tuple[int, ...]) -> Ablation:
    """All but the heads and MLPs with the largest mean flows, or but random ones."""
    nodes = np.concatenate([flows.heads, np.asarray(flows.mlps)[..., None]], axis=-1).mean(axis=0)
    by = [np.abs(nodes[METHODS.index(name)]) for name in RANKED[:-1]]
    by.append(np.random.default_rng(0).random(nodes.shape[1:]))
    ranks = np.stack([np.argsort(np.argsort(-x.ravel())).reshape(x.shape) for x in by])
    left_out = ranks[:, None] >= np.array(sizes)[:, None, None]
    cells = jnp.asarray(left_out.reshape(-1, *nodes.shape[1:]), flows.heads.dtype)
    return Ablation(cells[..., :-1], cells[..., -1])
