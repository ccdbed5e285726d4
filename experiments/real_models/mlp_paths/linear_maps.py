"""The linear maps of a frozen model from a token's embedding to the output, taken apart.

They are the "detached Jacobian" of the source: derivatives with patterns, norm scales and gates
held. They are computed a few directions at a time.
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.frozen import FrozenModel, after_layer, head_writes
from circuitax.circuits.paths.groups import carried_back

AT_ONCE = 64  # directions
FIRST, TOP = 3, 10  # singular vectors that are read, and tokens that each of them names


@jax.jit
def output_maps(
    frozen: FrozenModel, gain: Float[Array, " d_model"]
) -> Float[Array, "n_ctx d_out d_model"]:
    """Maps from each token's embedding to the output of the final norm at the last position.

    Args:
        frozen: The frozen model of one text.
        gain: Of the final norm.
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

    Args:
        vectors: Singular vectors, whose signs mean nothing.
        W_U: The unembedding, gain folded, centred over the vocabulary.
        tokens: Ids.
    """
    logits = vectors @ W_U
    both = np.concatenate([logits, -logits])
    higher = (both[:, :, None] > both[:, None, tokens]).sum(axis=1)
    return np.asarray((higher < TOP).any(axis=0))
