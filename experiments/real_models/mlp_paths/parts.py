"""The parts of one prompt's logit: sums of paths, and the linear map of each token."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.expansion import order_streams
from circuitax.circuits.paths.frozen import (
    FrozenModel,
    after_layer,
    frozen_model,
    head_constants,
    head_writes,
    mlp_writes,
)
from circuitax.circuits.paths.groups import carried_back
from circuitax.kernel.gauge import centre_vocabulary
from circuitax.kernel.model import Model
from circuitax.kernel.run import run

AT_ONCE = 64  # directions
FIRST, TOP = 3, 10  # singular vectors that are read, and tokens that each of them names


@jax.jit
def split(model: Model, text: Int[Array, " n_ctx"]) -> dict[str, Array]:
    """The logit of the likeliest next token over the mean of all, by number of heads and of MLPs.

    ``exact`` is what all paths from each source token add.
    """
    seen, last = run(model, text, outputs=True), text.shape[0] - 1
    frozen, token = frozen_model(seen), seen.logits[-1].argmax()
    direction = centre_vocabulary(frozen.read_out.W_U)[:, token]
    w = direction / jnp.asarray(frozen.read_out.scale)[-1]
    entering = carried_back(frozen, last, direction).entering[0]
    return {
        "token": token,
        "logit": seen.logits[-1, token] - seen.logits[-1].mean(),
        "by_heads": order_streams(frozen)[:, -1] @ w,
        "by_mlps": mlp_order_streams(frozen)[:, -1] @ w,
        "exact": (frozen.embedding * entering).sum(axis=1),
    }


def mlp_order_streams(frozen: FrozenModel) -> Float[Array, "order n_ctx d_model"]:
    """Contribution of the paths through 0 … n_layers MLPs to the final stream, heads inside.

    ``c_k ← c_k (I + Σ_h A^h ⊗ W_OV^h)``, then ``c_k ← c_k + c_{k-1} M_l``, layer by layer. What
    an MLP leaves at a stream of zeros has order 1, biases of heads have order 0.
    """
    maps: Any = frozen.maps  # there are, in a dressed model
    n_layers = frozen.A.shape[0]

    def step(streams: Array, layer: Int[Array, ""]) -> tuple[Array, None]:
        written = head_writes(frozen, layer, streams, summed=True)
        written = written.at[0].add(head_constants(frozen, layer).sum(axis=0))
        streams = streams + written
        if frozen.b_O is not None:
            streams = streams.at[0].add(frozen.b_O[layer])
        through = mlp_writes(maps, layer, streams[:-1])
        return streams.at[1:].add(through).at[1].add(maps.constant[layer]), None

    streams = jnp.zeros((n_layers + 1, *frozen.tokens.shape), frozen.tokens.dtype)
    streams = streams.at[0].set(frozen.embedding)
    return jax.lax.scan(step, streams, jnp.arange(n_layers))[0]


@jax.jit
def output_maps(
    frozen: FrozenModel, gain: Float[Array, " d_model"]
) -> Float[Array, "n_ctx d_out d_model"]:
    """Maps from each token's embedding to the output of the final norm at the last position.

    They are the "detached Jacobian" of Golden 2025: derivatives with patterns, norm scales and
    gates held, computed a few directions at a time.
    """
    last = frozen.tokens.shape[0] - 1

    def back(direction: Array) -> Array:
        return carried_back(frozen, last, direction).entering[0]

    rows = jax.lax.map(back, jnp.diag(gain), batch_size=min(AT_ONCE, gain.size))
    return jnp.moveaxis(rows, 1, 0)


@jax.jit
def layer_maps(frozen: FrozenModel, source: Int[Array, ""]) -> Float[Array, "d_model n_layers d"]:
    """Maps from one token's embedding to the stream behind each layer at the last position."""
    n_layers, d_model = frozen.A.shape[0], frozen.tokens.shape[1]

    def forth(direction: Array) -> Array:
        def step(stream: Array, layer: Array) -> tuple[Array, Array]:
            written = head_writes(frozen, layer, stream, summed=True)
            stream, written = after_layer(frozen, layer, stream, written, constants=False)
            return stream + written, (stream + written)[-1]

        start = jnp.zeros_like(frozen.embedding).at[source].set(direction)
        return jax.lax.scan(step, start, jnp.arange(n_layers))[1]

    eye = jnp.eye(d_model, dtype=frozen.tokens.dtype)
    return jax.lax.map(forth, eye, batch_size=min(AT_ONCE, d_model))


def stable_rank(matrix: Float[np.ndarray, "rows columns"]) -> float:
    """``‖M‖_F² / σ_1²``: at most the rank, and 1 for a single direction; 0 of a matrix of zeros."""
    largest = float(np.linalg.norm(matrix, 2)) ** 2
    return float(np.linalg.norm(matrix)) ** 2 / largest if largest else 0.0


def first_outputs(matrix: Float[np.ndarray, "d_in d_out"]) -> Float[np.ndarray, "first d_out"]:
    """The `FIRST` singular vectors on the side of the output, the first one first."""
    square = np.asarray(matrix, np.float64)
    square = square.T @ square
    last = len(square) - 1
    return scipy.linalg.eigh(square, subset_by_index=(last - FIRST + 1, last))[1].T[::-1]


def names_tokens(
    vectors: Float[np.ndarray, "first d_model"],
    W_U: Float[np.ndarray, "d_model d_vocab"],
    tokens: Int[np.ndarray, " n"],
) -> np.ndarray:
    """Whether each token is one of the `TOP` that a vector raises, or lowers, most; ``[n]``.

    The signs of singular vectors mean nothing.
    """
    logits = vectors @ W_U
    both = np.concatenate([logits, -logits])
    higher = (both[:, :, None] > both[:, None, tokens]).sum(axis=1)
    return np.asarray((higher < TOP).any(axis=0))
