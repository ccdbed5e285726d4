"""Importance of terms in nats: losses of selections, marginals in a stated order, Shapley values.

A loss is not additive over terms, so a term has no worth of its own: it has one given what is
already there (a marginal), or on average over all orders of arrival (Shapley).
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from circuitax.circuits.paths.read_out import logits_of, read_out_of
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.run import Run


def selection_losses(
    run: Run,
    streams: Float[Array, "n_terms n_ctx d_model"],
    selections: Bool[Array, "n_selections n_terms"] | Float[Array, "n_selections n_terms"],
) -> Float[Array, "n_selections n_losses"]:
    """Next-token losses in nats with only some terms at the unembedding, ``b_U`` included."""
    read_out, tokens = read_out_of(run), run.tokens

    def one(selection: Array) -> Array:
        weights = selection.astype(streams.dtype)
        logits = logits_of(jnp.einsum("p,ptd->td", weights, streams), read_out)
        if read_out.b_U is not None:
            logits = logits + read_out.b_U[None, :]
        return next_token_losses(logits, tokens)

    # one selection at a time: [n_selections, n_ctx, d_vocab] would be the largest array by far
    return jax.lax.map(one, selections)


def cumulative(n_terms: int) -> Bool[Array, "n_terms n_terms"]:
    """Selections that take the first term, the first two, and so on: for marginals in order."""
    return jnp.tril(jnp.ones((n_terms, n_terms), bool))


def marginals(
    cumulative_losses: Float[Array, "n_terms *rest"], empty_loss: Float[Array, "*rest"]
) -> Float[Array, "n_terms *rest"]:
    """Decrease of the loss as each term joins those before it; positive is useful."""
    before = jnp.concatenate([empty_loss[None], cumulative_losses[:-1]])
    return before - cumulative_losses


def shapley(values: Float[Array, "subset *rest"]) -> Float[Array, "n_players *rest"]:
    """``φ_l = Σ_{T ∌ l} |T|! (L - |T| - 1)! / L! (v(T ∪ l) - v(T))``, exact over all subsets."""
    count = values.shape[0]
    if count & (count - 1) or count == 0:
        raise ValueError(f"values has {count} subsets on its first axis, must be a power of two")
    n_players = count.bit_length() - 1
    sizes = np.array([mask.bit_count() for mask in range(count)])
    share = [0.0] * count
    for mask, size in enumerate(sizes):
        if size < n_players:
            below, above = math.factorial(size), math.factorial(n_players - size - 1)
            share[mask] = below * above / math.factorial(n_players)
    phi = []
    for player in range(n_players):
        without = np.array([mask for mask in range(count) if not mask >> player & 1])
        weights = jnp.asarray(np.array(share)[without], values.dtype)
        gains = values[without | (1 << player)] - values[without]
        phi.append(jnp.tensordot(weights, gains, axes=1))
    return jnp.stack(phi) if phi else jnp.zeros((0, *values.shape[1:]), values.dtype)
