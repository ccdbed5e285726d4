"""Secants in the place of derivatives: the forward pass on two texts as one linear map.

The pass runs on both texts under ``jax.vmap(..., axis_name=PAIR)``. Every step gives the values it
always gives; its derivative is replaced by the secant between the two, linear in the differences of
its inputs and symmetric in the texts: by the mean of the other factor for a product, a divided
difference for a function of one number, logarithmic means for a softmax. A derivative of the pass,
forwards or backwards, is then the map from differences of embeddings to differences of logits.

All that multiplies a difference is a mean of both texts. The linear map is then one for both, and
goes through once.

In its rule, each step gives its value by the plain function: a derivative of what the rules gave,
such as that of a flow by the weights, is then the usual one.

Derivations: docs/methods/contrast.md.
"""

import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from circuitax.kernel import attention
from circuitax.kernel.linalg import at_least_single
from circuitax.kernel.mlp import Activation, activate, gate, solu_gate
from circuitax.kernel.norm import Norm, centred, norm_scale

PAIR = "pair"
F = TypeVar("F", bound=Callable[..., Any])
# Below the first, (1 - exp(-t)) / t is a series, whose last term is then below rounding.
_SERIES, _N_TERMS = 0.1, 11
# Nodes in [-1, 1] that integrate the normal density over steps of at most 1 to rounding.
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)


def secant(step: F) -> F:
    """A step of the forward pass, with its secant for a derivative; linear ones have it."""
    replaced: F = _SECANTS.get(step, step)
    return replaced


def weight_secant(step: F) -> Callable[..., Any]:
    """The same between two models, where a linear map is a product of its input and weights."""
    return (lambda *factors: _even(step(*factors))) if step in _LINEAR else secant(step)


def stepwise(step: F) -> F:
    """The secant, with the softmax taken through its exponentials and their sum.

    ``ΔP_j = L_j (Δs_j - Σ_k E_k Δs_k / Z̄)``, E and Z̄ logarithmic means of both exponentials and of
    both sums. Source: tangermeme 1.6.
    """
    if step is not attention.attend:
        return secant(step)

    @jax.custom_jvp
    def softmax(scores: Array, mask: Array) -> Array:
        return attention.masked_softmax(scores, mask)

    @softmax.defjvp
    def difference(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple:
        scores, mask = primals
        allowed = jnp.broadcast_to(mask, scores.shape)
        z = jnp.where(allowed, scores, -jnp.inf)
        total = jax.nn.logsumexp(z, axis=-1, keepdims=True)
        common = jnp.maximum(total, in_other(total))

        def mean(logs: Array) -> Array:
            logs = jnp.where(allowed, logs, 0)
            return jnp.where(allowed, logarithmic_mean(logs, in_other(logs)), 0)

        falls = jnp.sum(mean(z - common) * tangents[0], axis=-1, keepdims=True)
        falls = falls / logarithmic_mean(total - common, in_other(total - common))
        return attention.masked_softmax(scores, mask), mean(z - total) * (tangents[0] - falls)

    def attend(scores: Array, mask: Bool[Array, "dest src"], v: Array) -> tuple[Array, Array]:
        pattern = softmax(scores, mask)
        return _bilinear(attention.mix_values)(pattern, v), pattern

    replaced: Any = attend
    return replaced


def softmax_secant(step: F) -> F:
    """Derivatives, but the secant of the softmax, which AtP* takes between two texts.

    Values are mixed by the mean of the derivatives in both. Source: Kramár et al. 2024, who take it
    for single queries and keys.
    """
    if step is not attention.attend:
        return step

    def attend(scores: Array, mask: Bool[Array, "dest src"], v: Array) -> tuple[Array, Array]:
        pattern = _softmax(scores, mask)
        return _even(attention.mix_values(pattern, v)), pattern

    replaced: Any = attend
    return replaced


def in_other(x: Array) -> Array:
    """The same number in the other text."""
    return jax.lax.ppermute(x, PAIR, [(0, 1), (1, 0)])


def _mean(x: Array) -> Array:
    """The mean of both texts, which they share: what is symmetric in them stays as it is."""
    return jax.lax.pmean(x, PAIR)


@jax.custom_jvp
def _even(y: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """A product, whose difference is the mean of its derivatives in each text."""
    return y


@_even.defjvp
def _even_difference(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return primals[0], _mean(tangents[0])


def _bilinear(product: F) -> Callable[..., Array]:
    """``Δ(ab) = ā Δb + b̄ Δa``."""

    def multiply(a: Array, b: Array, *options: float) -> Array:
        @jax.custom_jvp
        def of(a: Array, b: Array) -> Array:
            y: Array = product(a, b, *options)
            return y

        @of.defjvp
        def difference(primals: Any, tangents: Any) -> tuple[Array, Array]:
            (a, b), (da, db) = primals, tangents
            dy = product(_mean(a), db, *options) + product(da, _mean(b), *options)
            return product(a, b, *options), dy

        y: Array = of(a, b)
        return y

    return multiply


@jax.custom_jvp
def _quotient(x: Float[Array, "*shape"], y: Float[Array, "*#shape"]) -> Float[Array, "*shape"]:
    """``Δ(x / y) = mean(1 / y) Δx - x̄ Δy / (y_A y_B)``."""
    return x / y


@_quotient.defjvp
def _quotient_difference(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x, y), (dx, dy) = primals, tangents
    return x / y, _mean(1 / y) * dx - _mean(x) * _mean(1 / (y * in_other(y))) * dy


def _norm_scale(
    x: Float[Array, "*batch d_model"], norm: Norm, eps: float
) -> Float[Array, "*batch"]:
    """``Δσ = mean(c̄ Δc) / σ̄``, c the centred stream: σ² is a mean of products."""

    @jax.custom_jvp
    def scale(c: Array) -> Array:
        return norm_scale(c, Norm.rmsnorm, eps)

    @scale.defjvp
    def difference(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (c,), (dc,) = primals, tangents
        sigma = norm_scale(c, Norm.rmsnorm, eps)
        return sigma, jnp.mean(_mean(c) * dc, axis=-1) / _mean(sigma)

    return norm_scale(x, norm, eps) if norm == Norm.none else scale(centred(x, norm))


def _cap(scores: Float[Array, "*shape"], bound: float | None) -> Float[Array, "*shape"]:
    """``Δ(c tanh(s / c)) = tanh[s_A / c, s_B / c] Δs``."""
    if bound is None:
        return scores

    @jax.custom_jvp
    def capped(s: Array) -> Array:
        return attention.cap(s, bound)

    @capped.defjvp
    def difference(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (s,), (ds,) = primals, tangents
        slope = _mean(4 * _sigmoid_slope(2 * s / bound, 2 * in_other(s) / bound))
        return attention.cap(s, bound), slope * ds

    y: Array = capped(scores)
    return y


def _activate(z: Float[Array, "*shape"], activation: Activation | str) -> Float[Array, "*shape"]:
    """``Δf = f[z_A, z_B] Δz``; of SoLU by the rules of its parts."""
    if activation == Activation.solu_ln:
        wide = at_least_single(z)
        return _bilinear(operator.mul)(wide, solu_gate(wide, secant)).astype(z.dtype)

    @jax.custom_jvp
    def activated(z: Array) -> Array:
        return activate(z, activation)

    @activated.defjvp
    def difference(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (z,), (dz,) = primals, tangents
        return activate(z, activation), _mean(divided_difference(z, in_other(z), activation)) * dz

    y: Array = activated(z)
    return y


def _attend(
    scores: Float[Array, "n_heads dest src"],
    mask: Bool[Array, "dest src"],
    v: Float[Array, "n_heads src d_value"],
) -> tuple[Float[Array, "n_heads dest d_value"], Float[Array, "n_heads dest src"]]:
    """``ΔP_j = L_j (Δs_j - Σ_k L_k Δs_k / Σ_k L_k)``, and the mixed values as a product."""
    pattern = _softmax(scores, mask)
    return _bilinear(attention.mix_values)(pattern, v), pattern


@jax.custom_jvp
def _softmax(
    scores: Float[Array, "*batch dest src"], mask: Bool[Array, "dest src"]
) -> Float[Array, "*batch dest src"]:
    return attention.masked_softmax(scores, mask)


@_softmax.defjvp
def _softmax_difference(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (scores, mask), (ds, _) = primals, tangents
    allowed = jnp.broadcast_to(mask, scores.shape)
    logs = jax.nn.log_softmax(jnp.where(allowed, scores, -jnp.inf), axis=-1)
    logs = jnp.where(allowed, logs, 0)
    L = _mean(jnp.where(allowed, logarithmic_mean(logs, in_other(logs)), 0))
    weighted = L * ds
    total = jnp.sum(L, axis=-1, keepdims=True)
    common = jnp.sum(weighted, axis=-1, keepdims=True) / jnp.where(total > 0, total, 1)
    return attention.masked_softmax(scores, mask), weighted - L * common


def logarithmic_mean(
    log_p: Float[Array, "*shape"], log_q: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """``(p - q) / (ln p - ln q)`` of two numbers given by their logarithms; p where they meet."""
    return jnp.exp(jnp.maximum(log_p, log_q)) * _decay(jnp.abs(log_p - log_q))


@jax.custom_jvp
def log_total(scores: Float[Array, "*shape"]) -> Float[Array, "*batch"]:
    """``ln Σ_k exp(s_k)`` of the last axis, whose difference is ``Σ_k L_k Δs_k / Σ_k L_k``."""
    return jax.nn.logsumexp(scores, axis=-1)


@log_total.defjvp
def _log_total_difference(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (scores,), (ds,) = primals, tangents
    logs = jax.nn.log_softmax(scores, axis=-1)
    L = logarithmic_mean(logs, in_other(logs))
    return jax.nn.logsumexp(scores, axis=-1), jnp.sum(L * ds, axis=-1) / jnp.sum(L, axis=-1)


def divided_difference(
    a: Float[Array, "*shape"], b: Float[Array, "*shape"], activation: Activation | str
) -> Float[Array, "*shape"]:
    """``(f(a) - f(b)) / (a - b)``, without loss of digits near a = b, where it is ``f'(a)``.

    With ``f(z) = z g(z)`` it is ``mean(g) + mean(z) g[a, b]``.
    """
    if activation == Activation.linear:
        return jnp.ones_like(a)
    if activation == Activation.relu:
        # Both positive, both not, or one: then the difference is that of the positive one from 0.
        apart = jnp.where((a > 0) == (b > 0), 1, jnp.abs(a - b))
        crossing = jnp.maximum(jnp.maximum(a, b), 0) / apart
        return jnp.where((a > 0) == (b > 0), (a > 0).astype(a.dtype), crossing)
    if activation == Activation.gelu_10:
        below, under = (10 - activate(z, Activation.gelu) for z in (a, b))
        cut = divided_difference(below, under, Activation.relu)
        return cut * divided_difference(a, b, Activation.gelu)
    mean_gate = (gate(a, activation) + gate(b, activation)) / 2
    if activation == Activation.silu:
        slope = _sigmoid_slope(a, b)
    elif activation == Activation.gelu:
        slope = _normal_slope(a, b)
    elif activation == Activation.relu_squared:
        slope = divided_difference(a, b, Activation.relu)
    else:
        c = math.sqrt(2 / math.pi)
        inner = 2 * c * (1 + 0.044715 * (a * a + a * b + b * b))
        slope = inner * _sigmoid_slope(*(2 * c * (z + 0.044715 * z**3) for z in (a, b)))
    return mean_gate + (a + b) / 2 * slope


def _sigmoid_slope(a: Float[Array, "*shape"], b: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``σ[a, b] = σ(a) σ(-b) (1 - exp(b - a)) / (a - b)``, the greater one taken for a."""
    high, low = jnp.maximum(a, b), jnp.minimum(a, b)
    return jax.nn.sigmoid(high) * jax.nn.sigmoid(-low) * _decay(high - low)


def _normal_slope(a: Float[Array, "*shape"], b: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``Φ[a, b]``, the mean of the normal density between a and b: by its nodes where these near.

    Source: Gauss-Legendre quadrature.
    """
    near = jnp.abs(a - b) <= 1
    half = jnp.where(near, b - a, 0) / 2
    middle = jnp.where(near, (a + b) / 2, 0)
    mean = jnp.zeros_like(a)
    for node, weight in zip(_NODES, _NODE_WEIGHTS, strict=True):
        mean = mean + float(weight / 2) * jax.scipy.stats.norm.pdf(middle + float(node) * half)
    far = jnp.where(near, 1, a - b)
    difference = jax.scipy.stats.norm.cdf(a) - jax.scipy.stats.norm.cdf(b)
    return jnp.where(near, mean, difference / far)


def _decay(t: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``(1 - exp(-t)) / t`` of t at least 0, and 1 at 0; its derivative is exact near 0 too."""
    near = t < _SERIES
    small, large = jnp.where(near, t, 0), jnp.where(near, 1, t)
    series = jnp.ones_like(t)
    for k in range(_N_TERMS, 1, -1):
        series = 1 - small / k * series
    return jnp.where(near, series, -jnp.expm1(-large) / large)


_SECANTS: dict[Any, Any] = {
    operator.mul: _bilinear(operator.mul),
    attention.attention_scores: _bilinear(attention.attention_scores),
    operator.truediv: _quotient,
    norm_scale: _norm_scale,
    attention.cap: _cap,
    attention.attend: _attend,
    jax.nn.softmax: lambda z: _softmax(z, jnp.ones(z.shape[-2:], bool)),
    activate: _activate,
}
# Products with weights: linear between two texts, and not between two models.
_LINEAR = (attention.project, attention.write_heads, operator.matmul, jnp.multiply)
