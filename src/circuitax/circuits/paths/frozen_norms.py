"""The norms after additions of post-LN with their divisors held: affine maps of the stream.

``N(x) = diag(1/σ) x (I - 1 1ᵀ/d) diag(γ) + β`` is a Kronecker term and an offset. The term scales
all that is on the stream, the skip path too; the offset enters there like a bias.

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md), whose Definition 6 has
post-LN.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.kernel.chain import chain_of
from circuitax.kernel.kron import Kron
from circuitax.kernel.run import Run


class FrozenNorms(NamedTuple):
    """The norms after additions of post-LN, ``x ↦ (x - centre · mean x) / scale · gain + offset``.

    Attributes:
        centre: 1 where the norm subtracts the mean, else 0.
        scale: Divisors, as the run had them.
        gain: Factors on the entries of the stream.
        offset: What the norm adds.
    """

    centre: Float[Array, "n_layers parts"]
    scale: Float[Array, "n_layers parts n_ctx"]
    gain: Float[Array, "n_layers parts d_model"]
    offset: Float[Array, "n_layers parts d_model"]

    def apply(
        self, layer: int | Int[Array, ""], part: int, x: Float[Array, "*paths n_ctx d_model"]
    ) -> Float[Array, "*paths n_ctx d_model"]:
        """One norm on any stack of streams, without its offset."""
        mean = self.centre[layer, part] * jnp.mean(x, axis=-1, keepdims=True)
        factor = self.gain[layer, part][None, :] / self.scale[layer, part][:, None]
        return (x - mean) * jnp.broadcast_to(factor, x.shape)

    def at(self, positions: Int[Array, " n"]) -> "FrozenNorms":
        """The norms at these positions, of which some may be named several times."""
        return self._replace(scale=self.scale[..., positions])

    def term(self, layer: int, part: int) -> Kron:
        """One norm without its offset, ``diag(1/σ) ⊗ (I - 1 1ᵀ/d) diag(γ)``."""
        eye = jnp.eye(self.gain.shape[-1], dtype=self.gain.dtype)
        centred = eye - self.centre[layer, part] / eye.shape[0]
        feature = chain_of(centred * self.gain[layer, part][None, :])
        return Kron(jnp.diag(1 / self.scale[layer, part]), feature)

    def carried_back(
        self, part: int, directions: Float[Array, "n_layers n_ctx d_model"]
    ) -> Float[Array, "n_layers n_ctx d_model"]:
        """Directions behind one norm of every layer as directions in front of it."""
        before = directions * self.gain[:, part, None, :] / self.scale[:, part, :, None]
        mean = jnp.mean(before, axis=-1, keepdims=True)
        return before - self.centre[:, part, None, None] * mean


def frozen_norms(run: Run) -> FrozenNorms | None:
    """The norms after additions of a run, their divisors held; None in pre-LN."""
    spec, blocks, scales = run.model.spec, run.model.blocks, run.trace.scales
    if not spec.post_ln or scales.attention is None:
        return None
    pairs = [(blocks.attention_norm, scales.attention)]
    if scales.mlp is not None:
        pairs.append((blocks.mlp_norm, scales.mlp))
    plain = jnp.zeros((spec.n_layers, spec.d_model), scales.attention.dtype)
    gains = [plain + 1 if norm is None else norm.gain for norm, _ in pairs]
    offsets = [plain if norm is None or norm.offset is None else norm.offset for norm, _ in pairs]
    centre = jnp.full((spec.n_layers, len(pairs)), float(spec.norm.centres), plain.dtype)
    stacked = (jnp.stack(each, axis=1) for each in ([scale for _, scale in pairs], gains, offsets))
    return FrozenNorms(centre, *stacked)


def through_norm(
    norms: FrozenNorms,
    layer: int | Int[Array, ""],
    part: int,
    streams: Float[Array, "*paths n_ctx d_model"],
    written: Float[Array, "*others n_ctx d_model"],
    constants: bool,
) -> tuple[Float[Array, "*paths n_ctx d_model"], Float[Array, "*others n_ctx d_model"]]:
    """Streams that pass by, and writes of heads, through one norm after an addition."""
    streams = norms.apply(layer, part, streams)
    if constants:
        streams = streams.at[(0,) * (streams.ndim - 2)].add(norms.offset[layer, part][None, :])
    return streams, norms.apply(layer, part, written)
