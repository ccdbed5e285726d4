"""Path patching between texts that differ in the token that follows."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from circuitax.circuits.patching import patch_effects
from circuitax.circuits.path_patching import Edges, patch_paths
from circuitax.kernel.forward import forward
from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run, run

# Readers of a first-layer head taken together: all queries, keys, values; the logits; everything.
ROUTES = ("Q", "K", "V", "direct", "all")


class Pairs(NamedTuple):
    """``… a b … z d … a`` and ``… z b … a d … a``: induction continues with b, and with d.

    Attributes:
        answer: b.
        wrong: d.
    """

    clean: Int[Array, "pair n_ctx"]
    corrupted: Int[Array, "pair n_ctx"]
    answer: Int[Array, " pair"]
    wrong: Int[Array, " pair"]


def swapped_places(period: int) -> tuple[int, int]:
    """Positions of a and z in the first copy; b and d follow, and stand apart from period 6 on."""
    return period // 3, 2 * period // 3


def swapped_pairs(key: Key[Array, ""], n_pairs: int, d_vocab: int, period: int) -> Pairs:
    """Random distinct tokens, repeated until a comes again; corrupted by a swap of a and z.

    The swap keeps the set of tokens, and the second copy: it changes what a was followed by.
    """
    a, z = swapped_places(period)
    block = jnp.argsort(jax.random.uniform(key, (n_pairs, d_vocab)), axis=1)[:, :period]
    clean = jnp.concatenate([block, block[:, : a + 1]], axis=1)
    corrupted = clean.at[:, a].set(block[:, z]).at[:, z].set(block[:, a])
    return Pairs(clean, corrupted, block[:, a + 1], block[:, z + 1])


def of_pairs(model: Model, pairs: Pairs) -> dict[str, Array]:
    """All that is measured on pairs, of a model of two layers; the metric is b's lead over d.

    Patches put parts of the clean run into the corrupted one; they are means over pairs on the
    scale where the corrupted run is 0 and the clean one 1.
    """

    def one(pair: Pairs) -> dict[str, Array]:
        def lead(logits: Array) -> Array:
            return logits[-1, pair.answer] - logits[-1, pair.wrong]

        clean = run(model, pair.clean, outputs=True)
        corrupted = run(model, pair.corrupted, outputs=True)
        return {
            "clean": lead(clean.logits),
            "corrupted": lead(corrupted.logits),
            "stream": patch_effects(corrupted, clean, lead) + lead(corrupted.logits),
            "routes": route_leads(clean, corrupted, pair),
        }

    found = jax.tree.map(lambda x: x.mean(axis=0), jax.lax.map(one, pairs))
    top, floor = found.pop("clean"), found.pop("corrupted")
    return {
        name: safe_divide(leads - floor, jnp.broadcast_to(top - floor, leads.shape))
        for name, leads in found.items()
    }


def route_leads(clean: Run, corrupted: Run, pair: Pairs) -> Float[Array, "writer route"]:
    """b's lead when one of the `ROUTES` sees a layer-0 head of two layers as it was clean."""
    good, bad = clean.trace.head_outputs, corrupted.trace.head_outputs
    if good is None or bad is None:
        raise ValueError("clean and corrupted must be made with outputs=True")
    n_heads = good.shape[1]
    # Readers in the second layer: queries, keys, values; none; all. The last two with the logits.
    kinds = jnp.concatenate([jnp.eye(3), jnp.zeros((1, 3)), jnp.ones((1, 3))])
    second = jnp.repeat(kinds[:, :, None], n_heads, axis=2)
    masks = jnp.stack([jnp.zeros_like(second), second], axis=2)
    logits = jnp.array([0.0, 0.0, 0.0, 1.0, 1.0])
    routes = Edges(masks[:, 0], masks[:, 1], masks[:, 2], logits)

    def lead(change: Array, edges: Edges) -> Array:
        logits = forward(corrupted.model, pair.corrupted, patch_paths(corrupted, change, edges))[0]
        return logits[-1, pair.answer] - logits[-1, pair.wrong]

    return jax.vmap(jax.vmap(lead, (None, 0)), (0, None))(good[0] - bad[0], routes)
