"""Shares of tokens and heads in a logit: exact ones, and those of other methods."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.frozen import frozen_model
from circuitax.circuits.paths.groups import carried_back
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.run import Run


class Shares(NamedTuple):
    """Scores of each source token and of each head."""

    tokens: Float[Array, " n_ctx"]
    heads: Float[Array, "n_layers n_heads"]


def over_mean(logits: Float[Array, " d_vocab"], token: int | Int[Array, ""]) -> Float[Array, ""]:
    """The logit of a token over the mean of all, which the softmax does not see."""
    return logits[token] - logits.mean()


def path_shares(seen: Run, direction: Float[Array, " d_model"], gates: str) -> Shares:
    """All paths from each token, and all through each head, at all positions.

    Args:
        seen: A run of one text, with outputs.
        direction: Of the logit at the last position, in the folded unembedding.
        gates: ``"frozen"``, which is exact; ``"shared"`` for RelP's rule.
    """
    frozen = frozen_model(seen, gates=gates)
    back = carried_back(frozen, frozen.tokens.shape[0] - 1, direction)
    heads = jnp.einsum("lhtd,ltd->lh", seen.head_outputs, back.written)
    return Shares((frozen.embedding * back.entering[0]).sum(axis=1), heads)


def direct_shares(seen: Run, direction: Float[Array, " d_model"]) -> Float[Array, "layers heads"]:
    """Direct share of each head in the logit, past all later layers."""
    w = direction / jnp.asarray(seen.scales.final)[-1]
    return jnp.einsum("lhd,d->lh", jnp.asarray(seen.head_outputs)[:, :, -1], w)


def gradient_shares(seen: Run, token: Int[Array, ""]) -> Shares:
    """Gradient times input of each token, and times output of each head; nothing is held."""
    model, embedded = seen.model, jnp.asarray(seen.model.W_E)[seen.tokens]
    layers, heads = seen.patterns.shape[:2]
    nothing = jnp.zeros((layers + 1, *embedded.shape), embedded.dtype)

    def logit(kept: Array, moved: Array) -> Array:
        edit = Interventions(head_keep=kept[..., None], stream_add=nothing.at[0].set(moved))
        return over_mean(forward(model, seen.tokens, edit)[0][-1], token)

    start = jnp.ones((layers, heads), embedded.dtype), jnp.zeros_like(embedded)
    of_heads, of_tokens = jax.grad(logit, argnums=(0, 1))(*start)
    return Shares((of_tokens * embedded).sum(axis=1), of_heads)
