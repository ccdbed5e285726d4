"""A sparse autoencoder over hidden vectors: its Linen module, with four kinds of sparsity."""

from enum import Enum
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.checks import check_range, choice


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


def _unit_rows(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "width d_in"]:
    rows = jax.random.normal(key, shape, float)
    return rows / jnp.linalg.norm(rows, axis=1, keepdims=True)
