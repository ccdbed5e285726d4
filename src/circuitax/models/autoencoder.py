"""A sparse autoencoder over hidden vectors: its Linen module, with four kinds of sparsity.

Weight maps as sums of rank-one subcomponents have a causal importance function for each.
"""

import math
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.checks import check_range, choice
from circuitax.kernel.mlp import Activation, activate


def strongest(
    codes: Float[Array, "batch width"], k: Float[Array, ""] | Int[Array, ""] | float | int
) -> Float[Array, "batch width"]:
    """The k largest codes of each row; all others become 0. k may be an array, so it can be swept.

    Source: Gao et al. 2024, arXiv 2406.04093 (TopK).
    """
    check_range("k", k, "[1, inf)")
    # Numbers that are not negative are ordered as their bits are: the k-th largest is found bit by
    # bit, which on a CPU is many times faster than sorting, and than comparing all pairs.
    kind = jnp.dtype(f"int{8 * codes.dtype.itemsize}")
    bits = jax.lax.bitcast_convert_type(jax.lax.stop_gradient(codes), kind)
    highest = jnp.iinfo(kind).bits - 2

    def with_next_bit(i: Int[Array, ""], least: Int[Array, " batch"]) -> Int[Array, " batch"]:
        tried = least | (jnp.ones((), kind) << (highest - i).astype(kind))
        enough = jnp.sum(bits >= tried[:, None], axis=1) >= k
        return jnp.where(enough, tried, least)

    start = jnp.zeros(codes.shape[0], kind)
    least = jax.lax.fori_loop(0, highest + 1, with_next_bit, start)
    return jnp.where(bits >= least[:, None], codes, 0)


def jump_gate(
    codes: Float[Array, "batch width"], threshold: Float[Array, " width"], bandwidth: float
) -> Float[Array, "batch width"]:
    """1 where a code exceeds its threshold, else 0, with a gradient for the threshold alone.

    Source: Rajamanoharan et al. 2024, arXiv 2407.14435 (JumpReLU, straight-through estimator with a
        rectangular kernel).
    """
    check_range("bandwidth", bandwidth, "(0, inf)")
    fixed = jax.lax.stop_gradient(codes)
    step = (fixed > threshold[None]).astype(codes.dtype)
    ramp = jnp.clip((fixed - threshold[None]) / bandwidth + 0.5, 0, 1)
    return step + ramp - jax.lax.stop_gradient(ramp)


class Sparsity(Enum):
    """Kinds of sparsity of an autoencoder; names as written in a config."""

    relu = "relu"
    """ReLU, and a penalty on the sum of the codes."""
    topk = "topk"
    """The k strongest codes of each sample stay."""
    jumprelu = "jumprelu"
    """A code below its own threshold is off, and the number of codes that are on is penalised."""
    matryoshka = "matryoshka"
    """As ``relu``, with latents in nested groups: each prefix has to reconstruct by itself."""


class Coded(NamedTuple):
    """Codes of a batch, and the sparsity penalty of each."""

    codes: Float[Array, "batch width"]
    cost: Float[Array, " batch"]


class Autoencoder(nn.Module):
    """``f = σ((h - b_dec) W_enc + b_enc)``, ``h' = f D + b_dec``, rows of D of norm 1.

    Attributes:
        kind: What σ is; a `Sparsity` or its name.
        width: Latents, at least 1.
        d_in: Size of h, at least 1.
        bandwidth: Width of the window in which a threshold of ``jumprelu`` has a gradient.

    Source: Bricken et al. 2023 (ReLU); Gao et al. 2024, arXiv 2406.04093 (TopK); Rajamanoharan et
        al. 2024, arXiv 2407.14435 (JumpReLU); Bussmann et al. 2025, arXiv 2503.17547 (Matryoshka).
    Differs: decoder rows are normalised where they are used, so that codes are magnitudes; the
        encoder starts as the decoder's transpose.
    """

    kind: Sparsity
    width: int
    d_in: int
    bandwidth: float = 0.1

    def __post_init__(self) -> None:
        self.kind = choice("kind", Sparsity, self.kind)
        super().__post_init__()

    def setup(self) -> None:
        """Parameters; encoder and decoder begin equal."""
        self.D = self.param("D", _unit_rows, (self.width, self.d_in))
        self.W_enc = self.param("W_enc", lambda key: self.D.T * 1.0)
        self.b_enc = self.param("b_enc", nn.initializers.zeros, (self.width,), float)
        self.b_dec = self.param("b_dec", nn.initializers.zeros, (self.d_in,), float)
        if self.kind is Sparsity.jumprelu:
            start = nn.initializers.constant(self.bandwidth)
            self.threshold = self.param("threshold", start, (self.width,), float)

    def __call__(
        self, h: Float[Array, "batch d_in"], strength: Float[Array, ""]
    ) -> tuple[Coded, Float[Array, "batch d_in"]]:
        """Codes and reconstruction."""
        coded = self.encode(h, strength)
        return coded, self.decode(coded.codes)

    def encode(self, h: Float[Array, "batch d_in"], strength: Float[Array, ""]) -> Coded:
        """Codes; ``strength`` is k for ``topk`` and the weight of the penalty for all others."""
        drive = (h - self.b_dec[None]) @ self.W_enc + self.b_enc[None]
        codes = jax.nn.relu(drive)
        if self.kind is Sparsity.topk:
            return Coded(strongest(codes, strength), jnp.zeros(h.shape[0]))
        if self.kind is Sparsity.jumprelu:
            gate = jump_gate(codes, jax.nn.relu(self.threshold), self.bandwidth)
            return Coded(codes * gate, strength * jnp.sum(gate, axis=1))
        return Coded(codes, strength * jnp.sum(codes, axis=1))

    def directions(self) -> Float[Array, "width d_in"]:
        """The rows of D, of norm 1."""
        return self.D / jnp.linalg.norm(self.D, axis=1, keepdims=True)

    def decode(self, codes: Float[Array, "batch width"]) -> Float[Array, "batch d_in"]:
        """The reconstruction from all latents."""
        return codes @ self.directions() + self.b_dec[None]

    def prefixes(self, codes: Float[Array, "batch width"]) -> Float[Array, "prefix batch d_in"]:
        """Reconstructions from the first quarter, half and whole of the latents."""
        rows = self.directions()
        sizes = (max(1, self.width // 4), max(1, self.width // 2), self.width)
        parts = [codes[:, :size] @ rows[:size] for size in sizes]
        return jnp.stack(parts) + self.b_dec[None, None]


def _unit_rows(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "n d_in"]:
    rows = jax.random.normal(key, shape, float)
    return rows / jnp.linalg.norm(rows, axis=1, keepdims=True)


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
