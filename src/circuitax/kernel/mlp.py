"""The position-wise MLP of a transformer layer, plain, gated or deeper.

Sources (docs/bibliography.md): S0 is "Some Structures in Transformer Architectures", S1 the
linear-algebra post and S2 the attention chapter. E30 is an erratum of the sources (docs/errata.md).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.documented import documented
from circuitax.kernel.activations import Activation, activate, gate
from circuitax.kernel.weights import MLPWeights


@documented
class Gates(NamedTuple):
    """The factors that, once held, leave an MLP affine; layers may stand in front.

    Attributes:
        values: On ``x W_in + b_in``, and on the further hidden layers of a deeper MLP.
        gates: ``g(x W_gate + b_gate) * (x W_in + b_in)``, on ``x W_gate + b_gate``; None without
            gate.
    """

    values: Float[Array, "*layers mlp_depth n_ctx d_mlp"]
    gates: Float[Array, "*layers n_ctx d_mlp"] | None = None


def apply_mlp(
    weights: MLPWeights,
    x: Float[Array, "n_ctx d_model"],
    activation: Activation | str,
    held: Gates | None = None,
    share: Float[Array, ""] | None = None,
) -> Float[Array, "n_ctx d_model"]:
    """``σ(x W_in + b_in) W_out + b_out`` at each position; gated when ``W_gate`` is there.

    Gated: ``(σ(x W_gate + b_gate) * (x W_in + b_in)) W_out + b_out``, S1's SwiGLU when σ is silu.
    Deeper:
    ``h <- σ(h W_hidden[i] + b_hidden[i])`` for each i, between ``h = σ(x W_in + b_in)`` and
    ``h W_out + b_out``.

    Source: S0 Definition 5; S1 section 5.
    Differs: rows; S0 writes ``W_2 σ(W_1 x + b_1) + b_2``. S2 gives ``W_1`` our shape and the column
        product, which do not fit together (E30).
    """
    hidden = (
        hidden_units(weights, x, activation)
        if held is None
        else _held_units(weights, x, held, share)
    )
    return _affine(hidden, weights.W_out, weights.b_out)


def hidden_units(
    weights: MLPWeights, x: Float[Array, "n_ctx d_model"], activation: Activation | str
) -> Float[Array, "n_ctx d_mlp"]:
    """The last hidden layer of `apply_mlp`: the factor of each unit on its row of ``W_out``.

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


def gates_of(
    weights: MLPWeights, x: Float[Array, "n_ctx d_model"], activation: Activation | str
) -> Gates:
    """The factors of an MLP at its input, with which `apply_mlp` gives the same output."""
    z = _affine(x, weights.W_in, weights.b_in)
    if weights.W_gate is not None:
        opened = _affine(x, weights.W_gate, weights.b_gate)
        return Gates(activate(opened, activation)[None], gate(opened, activation) * z)
    factors = [gate(z, activation)]
    if weights.W_hidden is not None:
        n_extra = weights.W_hidden.shape[0]
        biases = [None] * n_extra if weights.b_hidden is None else list(weights.b_hidden)
        for W, b in zip(weights.W_hidden, biases, strict=True):
            z = _affine(activate(z, activation), W, b)
            factors.append(gate(z, activation))
    return Gates(jnp.stack(factors))


def _held_units(
    weights: MLPWeights,
    x: Float[Array, "n_ctx d_model"],
    held: Gates,
    share: Float[Array, ""] | None,
) -> Float[Array, "n_ctx d_mlp"]:
    """The last hidden layer with its factors held: affine in x."""
    hidden = _affine(x, weights.W_in, weights.b_in) * held.values[0]
    if weights.W_gate is not None and held.gates is not None and share is not None:
        through_gate = _affine(x, weights.W_gate, weights.b_gate) * held.gates
        hidden = (1 - share) * hidden + share * through_gate
    if weights.W_hidden is None:
        return hidden
    for i in range(weights.W_hidden.shape[0]):
        b = None if weights.b_hidden is None else weights.b_hidden[i]
        hidden = _affine(hidden, weights.W_hidden[i], b) * held.values[i + 1]
    return hidden


def _affine(
    x: Float[Array, "n_ctx d_in"],
    W: Float[Array, "d_in d_out"],
    b: Float[Array, " d_out"] | None,
) -> Float[Array, "n_ctx d_out"]:
    y = x @ W
    return y if b is None else y + b[None, :]
