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

    ``log softmax(W_E W_U + b_U)``, through the model's own forward pass on all tokens as one text.

    Args:
        model: One model with ``n_layers=0``.

    Raises:
        ValueError: If the model has layers, which read more than one token.

    Source: S0 Remark 21.
    """
    if model.n_layers:
        raise ValueError(f"model has n_layers={model.n_layers}, must have 0: layers read context")
    every = jnp.arange(model.d_vocab)
    return jax.nn.log_softmax(forward(model, every)[0], axis=-1)


def direct_path_log_probs(model: Model) -> Float[Array, "d_vocab d_vocab"]:
    """Predictions of the direct path alone, for any attention-only model without norm.

    ``log softmax(W_E W_U + b_U)``, the term without heads of the path expansion.

    Args:
        model: One model, of any number of layers.

    Source: S0 Theorem 25; framework paper, "The Path Expansion Trick".
    """
    logits = model.W_E @ model.W_U
    if model.b_U is not None:
        logits = logits + model.b_U[None, :]
    return jax.nn.log_softmax(logits, axis=-1)
