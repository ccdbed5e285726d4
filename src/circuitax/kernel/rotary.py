"""Rotary positions of a spec: the rotated entries of a head, and their frequencies by layer.

Pairs are neighbouring entries (2i, 2i + 1) of a head here. Files that pair entry i with i + half of
the rotated width are permuted when they are read (`models.rotary_layout`), which changes no score.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Float, Int

from circuitax.kernel.positions import Positions, rotate
from circuitax.kernel.spec import TransformerSpec


def rotary_frequencies(
    spec: TransformerSpec, dtype: DTypeLike, local: bool | Bool[Array, ""]
) -> Float[Array, " n_pairs"]:
    """The angle by which one step turns each pair, ``base^(-2i / rotary_dim)`` unless given.

    Source: RoFormer; S2, the attention chapter (docs/bibliography.md), "Positional encodings"
        (RoPE).
    """
    width = spec.rotary_width
    powers = -jnp.arange(0, width, 2, dtype=dtype) / width
    if spec.rotary_frequencies is None:
        usual = spec.rotary_base**powers
    else:
        usual = jnp.asarray(spec.rotary_frequencies, dtype)
    if spec.local_rotary_base is None:
        return usual
    return jnp.where(local, spec.local_rotary_base**powers, usual)


def turn(
    x: Float[Array, "n_heads n_ctx d_head"],
    index: Int[Array, " n_ctx"],
    spec: TransformerSpec,
    local: bool | Bool[Array, ""],
) -> Float[Array, "n_heads n_ctx d_head"]:
    """Queries or keys turned by their positions; unchanged where positions are not rotary."""
    if spec.positions != Positions.rotary:
        return x
    frequencies = rotary_frequencies(spec, x.dtype, local)
    width = spec.rotary_width
    if width == x.shape[-1]:
        return rotate(x, index, frequencies)
    turned = rotate(x[..., :width], index, frequencies)
    return jnp.concatenate([turned, x[..., width:]], axis=-1)
