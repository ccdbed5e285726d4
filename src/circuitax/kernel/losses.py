"""The next-token loss, token by token."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def next_token_losses(
    logits: Float[Array, "*batch n_ctx d_vocab"], tokens: Int[Array, "*batch n_ctx"]
) -> Float[Array, "*batch n_ctx-1"]:
    """Cross-entropy of each next token, ``-log softmax(logits_t)[x_{t+1}]``, in nats."""
    if tokens.shape[-1] < 2:
        raise ValueError(f"n_ctx={tokens.shape[-1]} must be at least 2 to have a next token")
    # The last position has no target; carrying its logits along is cheaper than copying the rest.
    targets = jnp.roll(tokens, -1, axis=-1)
    shift = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
    log_total = jnp.log(jnp.sum(jnp.exp(logits - shift), axis=-1))
    picked = jnp.take_along_axis(logits, targets[..., None], axis=-1) - shift
    return (log_total - picked[..., 0])[..., :-1]
