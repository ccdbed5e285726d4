"""Threshold decoding of k-sparse features from m dimensions, as by a ReLU network.

S0 is the document "Some Structures in Transformer Architectures" (Menon 2025),
whose Example 26 is such a network.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key
from scipy import special

from circuitax.kernel.checks import check_range
from circuitax.projection.coherence import unit_rows


class Recovery(NamedTuple):
    """Counts over trials."""

    exact: Int[Array, "*batch"]  # trials whose whole support was read out
    missed: Int[Array, "*batch"]  # active features read as off
    invented: Int[Array, "*batch"]  # inactive features read as on


def decode(
    vectors: Float[Array, "n_features dim"],
    active: Bool[Array, "*batch n_features"],
    threshold: float = 0.5,
) -> Bool[Array, "*batch n_features"]:
    """Reads feature j as on where ``⟨v_j, h⟩ > τ``, for the superposed state ``h = Σ_{i on} v_i``.

    If every |⟨v_i, v_j⟩| ≤ μ, the read-out of k features is right whenever ``k μ < 1/2`` at τ = 1/2
    (signal at least ``1 − (k − 1) μ``, crosstalk at most ``k μ``).

    Source: S0 Example 26: recovery "via the transpose operation", with the ReLU's threshold.
    """
    check_range("threshold", threshold, "(0, 1)")
    hidden = active.astype(vectors.dtype) @ vectors
    return jnp.asarray(hidden @ vectors.T > threshold)


def recovery(
    key: Key[Array, ""],
    vectors: Float[Array, "n_features dim"],
    *,
    n_active: int | Int[Array, ""],
    n_trials: int,
    threshold: float = 0.5,
) -> Recovery:
    """Threshold decoding of random k-sparse features, counted over trials."""
    check_range("n_active", n_active, f"[1, {vectors.shape[0]}]")
    check_range("n_trials", n_trials, "[1, inf)")
    check_range("threshold", threshold, "(0, 1)")
    return _recovery(key, vectors, jnp.asarray(n_active), n_trials, threshold)


@functools.partial(jax.jit, static_argnums=(3, 4))
def _recovery(
    key: Key[Array, ""],
    vectors: Float[Array, "n_features dim"],
    n_active: Int[Array, ""],
    n_trials: int,
    threshold: float,
) -> Recovery:
    n_features = vectors.shape[0]
    # The k smallest of independent uniforms are a uniform k-subset.
    u = jax.random.uniform(key, (n_trials, n_features))
    rank = jnp.clip(n_active, 1, n_features) - 1
    active = u <= jax.lax.dynamic_index_in_dim(jnp.sort(u, 1), rank, 1)
    found = decode(unit_rows(vectors), active, threshold)
    return Recovery(
        (found == active).all(1).sum(), (active & ~found).sum(), (found & ~active).sum()
    )


def guaranteed_sparsity(coherence: float) -> int:
    """The largest k with ``k μ < 1/2``: always decoded by threshold 1/2 at coherence μ."""
    check_range("coherence", coherence, "(0, 1]")
    return int(np.ceil(0.5 / coherence)) - 1


def crosstalk_failure(n_features: int, dim: int, n_active: int, threshold: float = 0.5) -> float:
    """Approximate probability that random directions fail to decode k features.

    The crosstalk on one read-out is close to N(0, k'/m), with k' = k for an inactive and k − 1 for
    an active feature; errors are treated as independent. So k may grow like ``m / (8 ln N)``, which
    is far more than the ``√m`` that worst-case coherence guarantees.
    """
    check_range("n_features", n_features, "[1, inf)")
    check_range("dim", dim, "[1, inf)")
    check_range("n_active", n_active, f"[1, {n_features}]")
    check_range("threshold", threshold, "(0, 1)")
    on = special.ndtr(-(1 - threshold) * np.sqrt(dim / max(n_active - 1, 1e-9)))
    off = special.ndtr(-threshold * np.sqrt(dim / n_active))
    return float(-np.expm1(n_active * np.log1p(-on) + (n_features - n_active) * np.log1p(-off)))
