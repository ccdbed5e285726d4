"""In-context learning: the decrease of the loss by context."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def in_context_score(
    losses: Float[Array, "*batch n_losses"], early: int = 50, late: int = 500
) -> Float[Array, "*batch"]:
    """Loss at a late position minus loss at an early one, in nats; negative where context helps.

    Source: induction-heads paper, "in-context learning score" (500th and 50th token).
    Differs: the paper's text quotes the magnitude; this is the signed difference.
    """
    if not 1 <= early < late <= losses.shape[-1]:
        raise ValueError(
            f"early={early}, late={late} must satisfy 1 <= early < late <= {losses.shape[-1]}"
        )
    return losses[..., late - 1] - losses[..., early - 1]


def repeated_pairs(tokens: Int[Array, "*batch n_ctx"]) -> Bool[Array, "*batch n_ctx-1"]:
    """Mask of positions whose pair of neighbours ``(x_t, x_{t+1})`` occurred earlier in the text."""
    present, coming = tokens[..., :-1], tokens[..., 1:]
    same = (present[..., :, None] == present[..., None, :]) & (
        coming[..., :, None] == coming[..., None, :]
    )
    return jnp.tril(same, k=-1).any(axis=-1)
