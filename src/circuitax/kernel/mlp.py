"""The position-wise MLP of a transformer layer, plain, gated or deeper, and its activations.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import math
import operator
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.display.tables import documented
from circuitax.kernel.checks import choice
from circuitax.kernel.linalg import at_least_single
from circuitax.kernel.norm import Norm, Rule, norm_scale, plain
from circuitax.kernel.weights import MLPWeights

SOLU_EPS = 1e-5


class Activation(StrEnum):
    """Names as written in a config; `linear` is the identity."""

    relu = "relu"
    relu_squared = "relu_squared"
    gelu = "gelu"
    gelu_10 = "gelu_10"
    gelu_tanh = "gelu_tanh"
    silu = "silu"
    solu_ln = "solu_ln"
    linear = "linear"


def _tanh_gate(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return 0.5 * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))


def solu_gate(z: Float[Array, "*batch n"], rule: Rule = plain) -> Float[Array, "*batch n"]:
    """``softmax(z) / σ`` along the last axis, σ the divisor of a layer norm of ``z softmax(z)``."""
    p = rule(jax.nn.softmax)(z)
    scale = rule(norm_scale)(rule(operator.mul)(z, p), Norm.layernorm_pre, SOLU_EPS)
    return rule(operator.truediv)(p, scale[..., None])


_exact_gelu, _normal = partial(jax.nn.gelu, approximate=False), jax.scipy.stats.norm.cdf
# The activation, and the factor by which it multiplies its argument.
_FORMS: dict[Activation, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    Activation.relu: (jax.nn.relu, lambda z: z > 0),
    Activation.relu_squared: (lambda z: jax.nn.relu(z) ** 2, jax.nn.relu),
    Activation.gelu: (_exact_gelu, _normal),
    Activation.gelu_10: (
        lambda z: jnp.minimum(_exact_gelu(z), 10),
        lambda z: _normal(z) * (10 / jnp.maximum(z, 10)),
    ),
    Activation.gelu_tanh: (partial(jax.nn.gelu, approximate=True), _tanh_gate),
    Activation.silu: (jax.nn.silu, jax.nn.sigmoid),
    Activation.solu_ln: (lambda z: z * solu_gate(z), solu_gate),
    Activation.linear: (lambda z: z, jnp.ones_like),
}


def activate(z: Float[Array, "*shape"], activation: Activation | str) -> Float[Array, "*shape"]:
    """Apply one activation to every entry, or `solu_ln` to the last axis.

    ``relu(z) = max(0, z)``; ``relu_squared(z) = max(0, z)²``; ``gelu(z) = z Φ(z)``;
    ``gelu_10(z) = min(z Φ(z), 10)``; ``silu(z) = z σ(z)``; ``linear(z) = z``;
    ``gelu_tanh(z) = z (1 + tanh(√(2/π) (z + 0.044715 z³))) / 2``, the form of GPT-2 and Gemma;
    ``solu_ln(z) = z softmax(z) / σ``, a layer norm that leaves its mean, gain and offset to the map
    that follows, σ² the variance of ``z softmax(z)`` and 1e-5.

    Source: S0 Definition 4 (ReLU) and footnote 1 (GELU).
    Differs: GELU is the exact form with the normal CDF; JAX's default is a tanh approximation, off
        by up to 5e-4. S0 section 7 asks for increasing activations, which neither GELU nor SiLU
        is; nothing here needs it (E26).
    """
    z = jnp.asarray(z)
    return _FORMS[choice("activation", Activation, activation)][0](at_least_single(z)).astype(
        z.dtype
    )


def gate(z: Float[Array, "*shape"], activation: Activation | str) -> Float[Array, "*shape"]:
    """The factor g of an activation written as ``z g(z)``.

    ``relu``: the step, 1 for z > 0; ``relu_squared``: ``max(0, z)``; ``gelu``: Φ(z); ``silu``:
    σ(z); ``linear``: 1; ``gelu_tanh``: ``(1 + tanh(√(2/π) (z + 0.044715 z³))) / 2``; ``gelu_10``:
    ``Φ(z) min(1, 10 / z)``; ``solu_ln``: ``softmax(z) / σ``. None of them divides by a z near 0.

    Source: ours; RelP and LRP hold the same factor.
    """
    return _FORMS[choice("activation", Activation, activation)][1](at_least_single(z)).astype(
        z.dtype
    )


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


class Units(NamedTuple):
    """Hidden units of an MLP before and behind their activation, as in `Activations`."""

    pre: Float[Array, "n_ctx d_mlp"]
    pre_linear: Float[Array, "n_ctx d_mlp"] | None
    post: Float[Array, "n_ctx d_mlp"]


Tap = Callable[[str, Array], Array]


def untouched(name: str, y: Array) -> Array:
    """The tap that edits nothing."""
    return y


def apply_mlp(
    weights: MLPWeights, x: Float[Array, "n_ctx d_model"], activation: Activation | str
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
    return write_units(weights, hidden_units(weights, x, activation).post)


def write_units(
    weights: MLPWeights, post: Float[Array, "n_ctx d_mlp"], rule: Rule = plain
) -> Float[Array, "n_ctx d_model"]:
    """``post W_out + b_out``, the last step of `apply_mlp`."""
    return _affine(post, weights.W_out, weights.b_out, rule)


def hidden_units(
    weights: MLPWeights,
    x: Float[Array, "n_ctx d_model"],
    activation: Activation | str,
    held: Gates | None = None,
    share: Float[Array, ""] | None = None,
    rule: Rule = plain,
    tap: Tap = untouched,
) -> Units:
    """Units of `apply_mlp`, each as ``tap`` leaves it; ``post`` are factors of rows of ``W_out``.

    Source: S0 Definition 5, "one could stack additional linear layers and nonlinearities".
    """
    linear, opened = _affine(x, weights.W_in, weights.b_in, rule), None
    if weights.W_gate is None:
        linear = tap("pre", linear)
    else:
        opened = tap("pre", _affine(x, weights.W_gate, weights.b_gate, rule))
        linear = tap("pre_linear", linear)
    if held is None:
        post = _last_layer(weights, linear, opened, activation, rule)
    else:
        post = _held_units(weights, linear, opened, held, share)
    post = tap("post", post)
    return Units(linear, None, post) if opened is None else Units(opened, linear, post)


def _last_layer(
    weights: MLPWeights,
    linear: Float[Array, "n_ctx d_mlp"],
    opened: Float[Array, "n_ctx d_mlp"] | None,
    activation: Activation | str,
    rule: Rule,
) -> Float[Array, "n_ctx d_mlp"]:
    if opened is not None:
        if weights.W_hidden is not None:
            raise ValueError("weights.W_hidden must be None beside weights.W_gate")
        return rule(operator.mul)(rule(activate)(opened, activation), linear)
    hidden = rule(activate)(linear, activation)
    if weights.W_hidden is None:
        return hidden

    def deeper(hidden: Array, layer: tuple[Array, Array | None]) -> tuple[Array, None]:
        W, b = layer
        return rule(activate)(_affine(hidden, W, b, rule), activation), None

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
    linear: Float[Array, "n_ctx d_mlp"],
    opened: Float[Array, "n_ctx d_mlp"] | None,
    held: Gates,
    share: Float[Array, ""] | None,
) -> Float[Array, "n_ctx d_mlp"]:
    """The last hidden layer with its factors held: affine in x."""
    hidden = linear * held.values[0]
    if opened is not None and held.gates is not None and share is not None:
        through_gate = opened * held.gates
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
    rule: Rule = plain,
) -> Float[Array, "n_ctx d_out"]:
    y = rule(operator.matmul)(x, W)
    return y if b is None else y + b[None, :]
