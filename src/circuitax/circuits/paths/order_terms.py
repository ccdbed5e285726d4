"""Sums of paths by order and by layer, each from one pass instead of one run per order.

Give every head output a factor e: the frozen model becomes a polynomial in e, and its coefficient
of e^k is the sum of all paths through k heads. With one variable e_l for each layer, there is one
coefficient for each subset of layers.

S4 are the notes on the framework paper (docs/bibliography.md). E34 is an erratum of the
sources (docs/errata.md).
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.paths.frozen import FrozenModel, after_layer, head_constants, head_writes

MAX_LAYERS = 8  # 2^L streams; for more layers, combine some or use `order_streams`


def order_streams(frozen: FrozenModel) -> Float[Array, "order n_ctx d_model"]:
    """Contribution of the paths of each order, 0 … n_layers, to the final stream.

    ``c_k ← c_k + Σ_h A^h c_{k-1} W_OV^h`` layer by layer: one pass, the cost of n_layers + 1
    streams. Differentiable. Output biases ``b_O`` and constants of MLPs, or what these wrote as
    sources, have order 0, value biases the order of their head. In a dressed stream every ``c_k``
    passes the MLPs, ``c_k (I + M_l)``: the order counts heads.

    Source: framework paper, "term importance analysis" (V-composition, patterns frozen).
    Differs: the paper runs the model once for each order; S4's step 1 also forgets to save what
        step 2 adds (E34 of docs/errata.md). Both give these sums.
    """
    n_layers = frozen.A.shape[0]
    streams = jnp.zeros((n_layers + 1, *frozen.tokens.shape), frozen.tokens.dtype)
    streams = streams.at[0].set(frozen.embedding)
    for layer in range(n_layers):
        written = head_writes(frozen, layer, streams[:-1], summed=True)
        written = written.at[0].add(head_constants(frozen, layer).sum(axis=0))
        streams, written = after_layer(frozen, layer, streams, written)
        streams = streams.at[1:].add(written)
    return streams


def layer_subset_streams(frozen: FrozenModel) -> Float[Array, "subset n_ctx d_model"]:
    """Contribution of the paths through exactly the layers of each subset to the final stream."""
    n_layers = frozen.A.shape[0]
    if n_layers > MAX_LAYERS:
        raise ValueError(
            f"n_layers={n_layers} must be at most {MAX_LAYERS}: subsets are 2^n_layers"
        )
    streams = frozen.embedding[None]
    for layer in range(n_layers):
        written = head_writes(frozen, layer, streams, summed=True)
        written = written.at[0].add(head_constants(frozen, layer).sum(axis=0))
        streams, written = after_layer(frozen, layer, streams, written)
        streams = jnp.concatenate([streams, written])
    return streams


def over_subsets(terms: Float[Array, "subset *rest"]) -> Float[Array, "subset *rest"]:
    """``Σ_{S ⊆ T} terms_S`` for every set T of layers: the frozen model with the others removed."""
    count = terms.shape[0]
    if count & (count - 1) or count == 0:
        raise ValueError(f"terms has {count} subsets on its first axis, must be a power of two")
    rest, step = terms.shape[1:], 1
    while step < count:
        pairs = terms.reshape(count // (2 * step), 2, step, *rest)
        terms = jnp.stack([pairs[:, 0], pairs[:, 0] + pairs[:, 1]], axis=1).reshape(count, *rest)
        step *= 2
    return terms
