"""Weight maps as sums of rank-one subcomponents, each with a causal importance function."""

import math
from collections.abc import Sequence

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from circuitax.kernel.mlp import Activation, activate

# Slope of a leaky hard sigmoid where it would be flat.
LEAK = 0.01


class Subcomponents(nn.Module):
    """One map ``W ≈ sum_c V_c^T U_c``, and the causal importance of each term for an input.

    Attributes:
        n_components: C, at least 1; usually more than the map has true parts.
        d_in: Inputs of the map, at least 1.
        d_out: Outputs of the map, at least 1.
        d_gate: Hidden units of each importance function, at least 1.

    Source: Bushnaq, Braun and Sharkey 2025 (SPD), arXiv 2506.20790, section 2.
    Differs: row form, so that V_c reads and U_c writes; V begins as rows of norm 1.
    """

    n_components: int
    d_in: int
    d_out: int
    d_gate: int = 16

    def setup(self) -> None:
        """Read and write directions, and the importance functions."""
        n, width = self.n_components, self.d_gate
        normal = nn.initializers.normal
        self.V = self.param("V", _unit_rows, (n, self.d_in))
        self.U = self.param("U", normal(1 / math.sqrt(n)), (n, self.d_out), float)
        self.gate_in = self.param("gate_in", normal(math.sqrt(2)), (width, n), float)
        self.gate_bias = self.param("gate_bias", nn.initializers.zeros, (width, n), float)
        self.gate_out = self.param("gate_out", normal(1 / math.sqrt(width)), (width, n), float)
        self.gate_end = self.param("gate_end", nn.initializers.zeros, (n,), float)

    def importance(self, a: Float[Array, "batch d_in"]) -> Float[Array, "batch n_components"]:
        """Raw importance of every subcomponent; a hard sigmoid maps it to a number from 0 to 1."""
        read = a @ self.V.T
        # One hidden unit after the other: XLA makes the sum and its gradient one pass over samples
        # and subcomponents, in a third of the time that an array of all hidden units takes.
        out = jnp.broadcast_to(self.gate_end[None], read.shape)
        for weight, bias, end in zip(self.gate_in, self.gate_bias, self.gate_out, strict=True):
            out += activate(read * weight[None] + bias[None], Activation.gelu) * end[None]
        return out

    def masked(
        self, a: Float[Array, "batch d_in"], mask: Float[Array, "batch n_components"]
    ) -> Float[Array, "batch d_out"]:
        """``sum_c m_c (a V_c) U_c``: the map with every subcomponent scaled by its mask."""
        return (a @ self.V.T * mask) @ self.U

    def matrix(self) -> Float[Array, "d_in d_out"]:
        """``sum_c V_c^T U_c``."""
        return self.V.T @ self.U


class DecomposedMaps(nn.Module):
    """The maps of a network, one after the other, each as `Subcomponents`.

    Attributes:
        widths: Inputs of the first map, then outputs of every map; at least two, each at least 1.
        n_components: Subcomponents of each map.
        d_gate: Hidden units of each importance function.
    """

    widths: tuple[int, ...]
    n_components: int
    d_gate: int = 16

    def setup(self) -> None:
        """One module for each map."""
        self.maps = [
            Subcomponents(self.n_components, d_in, d_out, self.d_gate)
            for d_in, d_out in zip(self.widths, self.widths[1:], strict=False)
        ]

    def __call__(
        self, inputs: Sequence[Float[Array, "batch _"]]
    ) -> list[Float[Array, "batch n_components"]]:
        """Raw importances in each map, from the inputs of the whole network."""
        return [part.importance(a) for part, a in zip(self.maps, inputs, strict=True)]

    def masked(
        self, a: Float[Array, "batch _"], mask: Float[Array, "batch n_components"], place: int
    ) -> Float[Array, "batch _"]:
        """Map number ``place`` with masked subcomponents."""
        out: Float[Array, "batch _"] = self.maps[place].masked(a, mask)
        return out

    def matrices(self) -> list[Float[Array, "_ _"]]:
        """The sum of the subcomponents of each map."""
        return [part.matrix() for part in self.maps]


def lower_leaky(raw: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """A hard sigmoid with a slope of 0.01 below 0, so that inactive components can become active.

    Source: SPD, arXiv 2506.20790, section 2 (for masks).
    """
    return jnp.where(raw < 0, LEAK * raw, jnp.minimum(raw, 1))


def upper_leaky(raw: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """A hard sigmoid with a slope of 0.01 above 1, so that active components can become inactive.

    Source: SPD, arXiv 2506.20790, section 2 (for the cost of importance).
    """
    return jnp.where(raw > 1, 1 + LEAK * (raw - 1), jnp.maximum(raw, 0))


def _unit_rows(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "n_components d_in"]:
    rows = nn.initializers.normal(1.0)(key, shape, float)
    return rows / jnp.linalg.norm(rows, axis=1, keepdims=True)
