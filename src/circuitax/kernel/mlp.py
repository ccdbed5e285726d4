"""The position-wise MLP of a transformer layer, plain, gated or deeper.

Sources (docs/bibliography.md): S0 is "Some Structures in Transformer Architectures", S1 the
linear-algebra post and S2 the attention chapter. E30 is an erratum of the sources (docs/errata.md).
"""

import jax
from jaxtyping import Array, Float

from circuitax.kernel.activations import Activation, activate
from circuitax.kernel.weights import MLPWeights


def apply_mlp(
    weights: MLPWeights, x: Float[Array, "n_ctx d_model"], activation: Activation | str
) -> Float[Array, "n_ctx d_model"]:
    """``σ(x W_in + b_in) W_out + b_out`` at each position; gated when ``W_gate`` is there.

    Gated: ``(σ(x W_gate + b_gate) * (x W_in + b_in)) W_out + b_out``, S1's SwiGLU when σ is silu.
    Deeper:
    ``h <- σ(h W_hidden[i] + b_hidden[i])`` for each i, between ``h = σ(x W_in + b_in)`` and
    ``h W_out + b_out``.

    Args:
        weights: One layer's weights.
        x: One row for each position.
        activation: σ; `linear` makes the plain MLP a single matrix ``W_in W_out`` (S1 section 5).

    Raises:
        ValueError: If the MLP is both gated and deeper.

    Source: S0 Definition 5; S1 section 5.
    Differs: rows; S0 writes ``W_2 σ(W_1 x + b_1) + b_2``. S2 gives ``W_1`` our shape and the column
        product, which do not fit together (E30).
    """
    return _affine(hidden_units(weights, x, activation), weights.W_out, weights.b_out)


def hidden_units(
    weights: MLPWeights, x: Float[Array, "n_ctx d_model"], activation: Activation | str
) -> Float[Array, "n_ctx d_mlp"]:
    """The last hidden layer of `apply_mlp`: the factor of each unit on its row of ``W_out``.

    Raises:
        ValueError: If the MLP is both gated and deeper.

    Source: S0 Definition 5, "one could stack additional linear layers and nonlinearities".
    """
    linear = _affine(x, weights.W_in, weights.b_in)
    if weights.W_gate is not None:
        if weights.W_hidden is not None:
            raise ValueError("weights.W_hidden must be None beside weights.W_gate")
        return activate(_affine(x, weights.W_gate, weights.b_gate), activation) * linear
    hidden = activate(linear, activation)
    if weights.W_hidden is None:
        return hidden

    def deeper(hidden: Array, layer: tuple[Array, Array | None]) -> tuple[Array, None]:
        W, b = layer
        return activate(_affine(hidden, W, b), activation), None

    return jax.lax.scan(deeper, hidden, (weights.W_hidden, weights.b_hidden))[0]


def _affine(
    x: Float[Array, "n_ctx d_in"],
    W: Float[Array, "d_in d_out"],
    b: Float[Array, " d_out"] | None,
) -> Float[Array, "n_ctx d_out"]:
    y = x @ W
    return y if b is None else y + b[None, :]
