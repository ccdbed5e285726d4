"""Sums of paths by order and by layer, and heads in series as one virtual head.

Through V-composition, ``H`` heads in each of two layers form ``H²`` virtual heads, each with a
pattern and an OV circuit of its own.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.paths.components import logits_of
from circuitax.circuits.paths.frozen import FrozenModel, after_layer, head_constants, head_writes
from circuitax.circuits.weights.folding import check_pre_ln
from circuitax.kernel.attention import per_head
from circuitax.kernel.chain import Chain, chain_of
from circuitax.kernel.linalg import norm
from circuitax.kernel.model import Model

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
    rest, step = terms.shape[1:], 1
    while step < count:
        pairs = terms.reshape(count // (2 * step), 2, step, *rest)
        terms = jnp.stack([pairs[:, 0], pairs[:, 0] + pairs[:, 1]], axis=1).reshape(count, *rest)
        step *= 2
    return terms


def virtual_patterns(
    frozen: FrozenModel, first: int, second: int
) -> Float[Array, "n_heads n_heads dest src"]:
    """``A² A¹`` of all pairs, ``[head of the first layer, head of the second, dest, src]``."""
    return jnp.einsum("bts,asr->abtr", frozen.A[second], frozen.A[first])


def virtual_ov(model: Model, first: int, second: int) -> Chain:
    """``W_OV¹ W_OV²`` of all pairs, a chain batched over ``[head of first, head of second]``."""
    check_pre_ln(model, "virtual_ov")
    heads = per_head(model)
    return chain_of(
        heads.W_V[first][:, None],
        heads.W_O[first][:, None],
        heads.W_V[second][None],
        heads.W_O[second][None],
    )


def virtual_sizes(
    frozen: FrozenModel, first: int, second: int
) -> Float[Array, "n_heads n_heads n_ctx"]:
    """Euclidean norms of the logits that each virtual head adds at each position."""
    if frozen.norms is not None:
        raise ValueError("frozen.norms must be None: in post-LN take path_stream(frozen, path)")
    brought = head_writes(frozen, first, frozen.embedding)
    written = jnp.swapaxes(head_writes(frozen, second, brought), 0, 1)
    return norm(logits_of(written, frozen.read_out))
