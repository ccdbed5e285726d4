"""Layer norm and RMS norm, which return their scale so that it can be frozen.

A rule takes a nonlinear step of the forward pass, such as this quotient or a softmax, and gives one
of the same values, perhaps with another derivative (`kernel.secants`).

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md). E27 is an erratum of
the sources (docs/errata.md).
"""

import operator
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.kernel.linalg import at_least_single
from circuitax.kernel.weights import NormWeights

Step = Callable[..., Any]
Rule = Callable[[Step], Step]


def plain(step: Step) -> Step:
    """The step itself."""
    return step


class Norm(StrEnum):
    """Names as written in a config. `layernorm_pre` centres and scales, without gain or offset."""

    none = "none"
    layernorm = "layernorm"
    layernorm_pre = "layernorm_pre"
    rmsnorm = "rmsnorm"

    @property
    def centres(self) -> bool:
        return self in (Norm.layernorm, Norm.layernorm_pre)


def norm_scale(x: Float[Array, "*batch d_model"], norm: Norm, eps: float) -> Float[Array, "*batch"]:
    """The divisor of a norm: ``sqrt(mean((x - μ)^2) + ε)``, with μ = 0 for RMS; 1 without norm.

    Source: S0 Definition 3, σ(x).
    """
    if norm == Norm.none:
        return jnp.ones(x.shape[:-1], x.dtype)
    dtype, x = x.dtype, at_least_single(x)
    return jnp.sqrt(jnp.mean(centred(x, norm) ** 2, axis=-1) + eps).astype(dtype)


def apply_norm(
    x: Float[Array, "*batch d_model"],
    norm: Norm,
    eps: float,
    weights: NormWeights | None = None,
    scale: Float[Array, "*batch"] | None = None,
    scale_add: Float[Array, "*#batch"] | None = None,
    rule: Rule = plain,
) -> tuple[Float[Array, "*batch d_model"], Float[Array, "*batch"]]:
    """``(x - μ(x)) / scale · gain + offset`` along the last axis, and the scale that was used.

    Source: S0 Definition 3.
    Differs: σ is the population deviation with ε inside the root; the printed form is undefined at
        σ = 0 (E27).
    """
    if scale is None:
        scale = rule(norm_scale)(x, norm, eps)
    if scale_add is not None:
        scale = scale + scale_add
    if norm == Norm.none:
        return x, scale
    y = rule(operator.truediv)(centred(at_least_single(x), norm), scale[..., None])
    if weights is not None:
        y = rule(jnp.multiply)(y, jnp.broadcast_to(weights.gain, y.shape))
        if weights.offset is not None:
            y = y + jnp.broadcast_to(weights.offset, y.shape)
    return y.astype(x.dtype), scale


def centred(x: Float[Array, "*batch d_model"], norm: Norm) -> Float[Array, "*batch d_model"]:
    """``x - μ(x)`` for norms that centre, else x."""
    return x - jnp.mean(x, axis=-1, keepdims=True) if norm.centres else x
