"""Interchange of what stands in two texts: of positions, of one layer's parts, of nodes.

A coalition of players has what stands in the first text, all others what stands in the second one;
its value is the lead of one logit over another. `shapley` shares the whole difference out.
"""

from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from circuitax.circuits.attribution import Outputs, lead
from circuitax.circuits.patching import Ablation, ablated_metrics
from circuitax.circuits.paths.components import Components
from circuitax.kernel.compiled import compiled
from circuitax.kernel.interventions import Activations, Interventions
from circuitax.kernel.model import Model

TOKENS = 256  # that pass the model together: its weights are read once for all of them


def shapley(values: Float[np.ndarray, " coalitions"]) -> Float[np.ndarray, " players"]:
    """``φ_i = Σ_S |S|! (k - 1 - |S|)! / k! (v(S ∪ i) - v(S))``, S without i.

    Args:
        values: Of every coalition; player i is in those whose number has bit i.
    """
    n = int(values.size).bit_length() - 1
    numbers = np.arange(values.size)
    share = np.array([factorial(s) * factorial(n - 1 - s) / factorial(n) for s in range(n)])
    found = []
    for i in range(n):
        without = numbers[(numbers >> i) & 1 == 0]
        gained = values[without | 1 << i] - values[without]
        found.append(share[np.bitwise_count(without)] @ gained)
    return np.array(found)


@compiled("cut", "n_players")
def position_coalitions(
    model: Model,
    first: Float[Array, "n_ctx d_model"],
    other: Float[Array, "n_ctx d_model"],
    asked: Int[Array, "2"],
    cut: int,
    n_players: int,
) -> Float[Array, " coalitions"]:
    """The lead where the last positions of a coalition have the first text's stream at a cut.

    All others have the other text's. In the order of `shapley`.
    """
    n_ctx, after = first.shape[0], _tail(model, jnp.concatenate([first, other]), cut)
    inside = jnp.pad(_members(n_players), ((0, 0), (n_ctx - n_players, 0)))
    rows = jnp.where(inside, 0, n_ctx) + jnp.arange(n_ctx)[None, :]
    size = max(1, TOKENS // n_ctx)
    return jax.lax.map(lambda text: lead(after, text, asked), rows, batch_size=size)


@compiled("layer")
def part_coalitions(
    model: Model, first: Outputs, other: Outputs, asked: Int[Array, "2"], layer: int
) -> Float[Array, " coalitions"]:
    """The lead where a coalition of one layer's heads, and of the stream past them, is the first's.

    The stream is the last player. Heads read what they read in the other text.
    """
    n_ctx, after = first.streams.shape[1], _tail(model, other.streams[layer], layer)
    heads, past = (x[layer] - y[layer] for x, y in zip(first[1::-1], other[1::-1], strict=True))
    none = jnp.zeros((after.n_layers, *heads.shape), heads.dtype)

    def value(inside: Bool[Array, " players"]) -> Float[Array, ""]:
        added = (inside[:-1, None, None] * heads).at[0].add(inside[-1] * past)
        edit = Interventions(head_add=none.at[0].set(added))
        return lead(after, jnp.arange(n_ctx), asked, edit)

    every = _members(model.n_heads + 1)
    return jax.lax.map(value, every, batch_size=max(1, TOKENS // n_ctx))


@compiled()
def with_replaced(
    model: Model,
    texts: Int[Array, "2 n_ctx"],
    both: list[Outputs],
    asked: Int[Array, "2"],
    cells: Ablation,
) -> Float[Array, "side cell"]:
    """The lead at each text where heads and MLPs of a cell are the other text's."""

    def measure(logits: Float[Array, "n_ctx d_vocab"]) -> Float[Array, ""]:
        return logits[-1, asked[0]] - logits[-1, asked[1]]

    def of(text: Int[Array, " n_ctx"], other: Outputs) -> Float[Array, " cell"]:
        to = Components(other.streams[0], None, other.heads, other.mlps, None)
        return ablated_metrics(model, text, cells, measure, replacement=to)

    return jnp.stack([of(text, other) for text, other in zip(texts, both[::-1], strict=True)])


@compiled()
def with_neurons(
    model: Model,
    texts: Int[Array, "2 n_ctx"],
    both: list[Outputs],
    asked: Int[Array, "2"],
    neurons: Int[Array, "neuron 2"],
) -> Float[Array, "side neuron"]:
    """The lead at each text where one neuron is the other text's."""
    less = jnp.asarray(both[0].units) - jnp.asarray(both[1].units)

    def leads(text: Int[Array, " n_ctx"], towards: Array) -> Float[Array, " neuron"]:
        def value(at: Int[Array, "2"]) -> Float[Array, ""]:
            here = (at[0], slice(None), at[1])
            added = jnp.zeros_like(less).at[here].set(towards[here])
            return lead(model, text, asked, Interventions(add=Activations(post=added)))

        return jax.lax.map(value, neurons, batch_size=max(1, TOKENS // text.size))

    return jnp.stack([leads(texts[0], -less), leads(texts[1], less)])


def _members(n_players: int) -> Bool[Array, "coalitions players"]:
    return jnp.asarray(np.arange(2**n_players)[:, None] >> np.arange(n_players) & 1, bool)


def _tail(model: Model, stream: Float[Array, "rows d_model"], layer: int) -> Model:
    """The layers from one on; its tokens are rows of a stream."""
    return model.replace(W_E=stream, blocks=jax.tree.map(lambda w: w[layer:], model.blocks))
