"""Sparse codes: the k largest, and those above a learned threshold."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.kernel.checks import check_range


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
