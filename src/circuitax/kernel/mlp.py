"""The position-wise MLP of a transformer layer, plain or gated."""

from jaxtyping import Array, Float

from circuitax.kernel.activations import Activation, activate
from circuitax.kernel.weights import MLPWeights


def apply_mlp(
    weights: MLPWeights, x: Float[Array, "n_ctx d_model"], activation: Activation | str
) -> Float[Array, "n_ctx d_model"]:
    """``σ(x W_in + b_in) W_out + b_out`` at each position; gated when ``W_gate`` is there.

    Gated: ``(σ(x W_gate) * (x W_in + b_in)) W_out + b_out``, S1's SwiGLU when σ is silu.

    Args:
        weights: One layer's weights.
        x: One row for each position.
        activation: σ; `linear` makes the plain MLP a single matrix ``W_in W_out`` (S1 section 5).

    Source: S0 Definition 5; S1 section 5.
    Differs: rows; S0 writes ``W_2 σ(W_1 x + b_1) + b_2``. S2 gives ``W_1`` our shape and the column
        product, which do not fit together (E30).
    """
    linear = _affine(x, weights.W_in, weights.b_in)
    if weights.W_gate is None:
        hidden = activate(linear, activation)
    else:
        hidden = activate(x @ weights.W_gate, activation) * linear
    return _affine(hidden, weights.W_out, weights.b_out)


def _affine(
    x: Float[Array, "n_ctx d_in"],
    W: Float[Array, "d_in d_out"],
    b: Float[Array, " d_out"] | None,
) -> Float[Array, "n_ctx d_out"]:
    y = x @ W
    return y if b is None else y + b[None, :]
