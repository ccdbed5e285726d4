"""Pointwise nonlinear maps, by name.

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md). E26 is an erratum of
the sources (docs/errata.md).
"""

import math
from enum import StrEnum

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Activation(StrEnum):
    """Names as written in a config; `linear` is the identity."""

    relu = "relu"
    gelu = "gelu"
    gelu_tanh = "gelu_tanh"
    silu = "silu"
    linear = "linear"


def activate(z: Float[Array, "*shape"], activation: Activation | str) -> Float[Array, "*shape"]:
    """Apply one activation to every entry.

    ``relu(z) = max(0, z)``; ``gelu(z) = z Φ(z)``; ``silu(z) = z σ(z)``; ``linear(z) = z``;
    ``gelu_tanh(z) = z (1 + tanh(√(2/π) (z + 0.044715 z³))) / 2``, the form of GPT-2 and Gemma.

    Source: S0 Definition 4 (ReLU) and footnote 1 (GELU).
    Differs: GELU is the exact form with the normal CDF; JAX's default is a tanh approximation, off
        by up to 5e-4. S0 section 7 asks for increasing activations, which neither GELU nor SiLU
        is; nothing here needs it (E26).
    """
    match _known(activation):
        case Activation.relu:
            return jax.nn.relu(z)
        case Activation.gelu:
            return jax.nn.gelu(z, approximate=False)
        case Activation.gelu_tanh:
            return jax.nn.gelu(z, approximate=True)
        case Activation.silu:
            return jax.nn.silu(z)
        case Activation.linear:
            return jnp.asarray(z)


def gate(z: Float[Array, "*shape"], activation: Activation | str) -> Float[Array, "*shape"]:
    """The factor g of an activation written as ``z g(z)``.

    ``relu``: the step, 1 for z > 0; ``gelu``: Φ(z); ``silu``: σ(z); ``linear``: 1; ``gelu_tanh``:
    ``(1 + tanh(√(2/π) (z + 0.044715 z³))) / 2``. None of them divides by z, so that 0 is no case.

    Source: ours; RelP and LRP hold the same factor.
    """
    match _known(activation):
        case Activation.relu:
            return (z > 0).astype(z.dtype)
        case Activation.gelu:
            return jax.scipy.stats.norm.cdf(z)
        case Activation.gelu_tanh:
            return 0.5 * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
        case Activation.silu:
            return jax.nn.sigmoid(z)
        case Activation.linear:
            return jnp.ones_like(z)


def _known(activation: Activation | str) -> Activation:
    try:
        return Activation(activation)
    except ValueError:
        names = ", ".join(Activation)
        raise ValueError(f"activation={activation!r} must be one of {names}") from None
