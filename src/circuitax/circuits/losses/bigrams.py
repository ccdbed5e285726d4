"""The bigram table of a model: its prediction after each token, without any context.

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.kernel.forward import forward
from circuitax.kernel.model import Model


def bigram_log_probs(model: Model) -> Float[Array, "d_vocab d_vocab"]:
    """Predictions of a zero-layer model after each token: row a is ``log P(. | a)``.

    Source: S0 Remark 21.
    """
    if model.n_layers:
        raise ValueError(f"model has n_layers={model.n_layers}, must have 0: layers read context")
    every = jnp.arange(model.d_vocab)
    return jax.nn.log_softmax(forward(model, every)[0], axis=-1)


def direct_path_log_probs(model: Model) -> Float[Array, "d_vocab d_vocab"]:
    """Predictions of the direct path alone, for any attention-only model without norm.

    Source: S0 Theorem 25; framework paper, "The Path Expansion Trick".
    """
    logits = model.W_E @ model.W_U
    if model.b_U is not None:
        logits = logits + model.b_U[None, :]
    return jax.nn.log_softmax(logits, axis=-1)
