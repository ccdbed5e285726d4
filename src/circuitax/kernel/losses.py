"""The next-token loss, token by token."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def next_token_losses(
    logits: Float[Array, "*batch n_ctx d_vocab"], tokens: Int[Array, "*batch n_ctx"]
) -> Float[Array, "*batch n_ctx-1"]:
    """Cross-entropy of each next token, ``-log softmax(logits_t)[x_{t+1}]``, in nats.

    Training and every analysis take their loss from here.

    Args:
        logits: Predictions at every position; those at the last one are not used.
        tokens: The text, in [0, d_vocab).

    Returns:
        One number for each position but the last; entry t is the loss on token t + 1.

    Raises:
        ValueError: If the text has fewer than two tokens, so nothing is predicted.
    """
    if tokens.shape[-1] < 2:
        raise ValueError(f"n_ctx={tokens.shape[-1]} must be at least 2 to have a next token")
    # The last position has no target; carrying its logits along is cheaper than copying the rest.
    targets = jnp.roll(tokens, -1, axis=-1)
    shift = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
    log_total = jnp.log(jnp.sum(jnp.exp(logits - shift), axis=-1))
    picked = jnp.take_along_axis(logits, targets[..., None], axis=-1) - shift
    return (log_total - picked[..., 0])[..., :-1]
