"""The exact expected loss of many networks at once, in programs shared by similar sizes."""

from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Float

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.loss.batches import OPTIONS, batch_size, batches
from circuitax.superposition.loss.expected_loss import ExpectedLoss, expected_loss
from circuitax.superposition.loss.padding import Numbers, Padding, unpacked

# Cosine terms of a loss that is reported.
N_TERMS = 256


def exact_losses(
    weights: TiedWeights,
    density: Float[Numbers, "member n_features"],
    importance: Float[Numbers, "member n_features"],
) -> np.ndarray:
    """`expected_loss` of every member, summed over features, whatever the caller's precision."""
    # On the host: an array of the caller's precision cannot be widened where it is.
    given = (weights, density, importance)
    wide, *settings = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), given)
    with jax.enable_x64(True):
        return np.asarray(losses_with_errors(wide, *settings).value)


def losses_with_errors(
    weights: TiedWeights,
    density: Float[Numbers, "member n_features"],
    importance: Float[Numbers, "member n_features"],
    *,
    n_terms: int = N_TERMS,
) -> ExpectedLoss:
    """`expected_loss` of every member, in the caller's precision; on the host."""
    padding = Padding(*weights.W.shape[-2:])
    arrays = padding.pack(weights), padding.fill(density), padding.fill(importance)
    members = np.arange(len(arrays[0]))
    found = [
        _losses(*(array[at] for array in arrays), rows=padding.rows, n_terms=n_terms)
        for at in batches(members, batch_size(len(members)))
    ]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[: len(members)], *found)


@partial(jax.jit, static_argnames=("rows", "n_terms"), compiler_options=OPTIONS)
def _losses(
    vectors: Float[Array, "member d"],
    density: Float[Array, "member n_features"],
    importance: Float[Array, "member n_features"],
    *,
    rows: int,
    n_terms: int,
) -> ExpectedLoss:
    loss = partial(expected_loss, n_terms=n_terms)
    return jax.vmap(loss)(unpacked(vectors, rows), density, importance)
