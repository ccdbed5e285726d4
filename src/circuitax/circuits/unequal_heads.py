"""Models some of whose heads write far more than others: what searches for paths are tried on."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from circuitax.kernel.checks import check_range
from circuitax.kernel.model import Model


def unequal_heads(key: Key[Array, ""], model: Model, tail: float) -> Model:
    r"""The model with ``W_O ← W_O · exp(tail · N(0, 1))``, one draw for each head.

    Heads of a model as initialised write about equally much, so that many paths are of one size; in
    trained models few heads write most.

    Args:
        key: Consumed.
        model: One model.
        tail: Standard deviation of the logarithm of what a head writes, not negative; 0 leaves the
            model as it is.

    Raises:
        ValueError: If ``tail`` is negative.
    """
    check_range("tail", tail, "[0, inf)")
    heads = model.blocks.attention
    strength = jnp.exp(tail * jax.random.normal(key, heads.W_O.shape[:2]))
    heads = heads._replace(W_O=heads.W_O * strength[:, :, None, None])
    return model.replace(blocks=model.blocks._replace(attention=heads))
