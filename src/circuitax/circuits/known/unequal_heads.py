"""Models with heavy-tailed norms of head outputs, to test searches for paths."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.run import run
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init_model


def unequal_heads(key: Key[Array, ""], model: Model, tail: float) -> Model:
    r"""The model with ``W_O ← W_O · exp(tail · N(0, 1))``, one draw for each head."""
    check_one_member(model)
    check_range("tail", tail, "[0, inf)")
    heads = model.blocks.attention
    strength = jnp.exp(tail * jax.random.normal(key, heads.W_O.shape[:2], heads.W_O.dtype))
    heads = heads._replace(W_O=heads.W_O * strength[:, :, None, None])
    return model.replace(blocks=model.blocks._replace(attention=heads))


def frozen_unequal(
    key: Key[Array, ""], strength_key: Key[Array, ""], sizes: TransformerSpec, tail: float
) -> FrozenModel:
    """A freshly initialised model with `unequal_heads`, frozen on a random text of its length."""
    if sizes.n_ctx is None:
        raise ValueError("sizes.n_ctx=None must be a number: the text is that long")
    model = unequal_heads(strength_key, init_model(derive(key, "weights"), sizes), tail)
    text = jax.random.randint(derive(key, "text"), (sizes.n_ctx,), 0, sizes.d_vocab)
    return frozen_model(run(model, text))
