"""Overlaps of many directions, and what a threshold reads out of their sums.

The law of random directions that they are held against is `laws.overlap_tail`, the least that is
possible `packings.welch_bound`.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from circuitax.projection.stream import block_of, gram, pad_rows, tile_mask, upper_tiles


class Coherence(NamedTuple):
    """Overlaps of distinct unit vectors, over all pairs."""

    largest: Float[Array, "*batch"]  # max |⟨u, v⟩|
    largest_signed: Float[Array, "*batch"]  # max ⟨u, v⟩: antipodal pairs do not count
    mean_square: Float[Array, "*batch"]  # mean ⟨u, v⟩²


@functools.partial(jax.jit, static_argnames="block")
def coherence(vectors: Float[Array, "n_vectors dim"], *, block: int = 512) -> Coherence:
    """Coherence of the rows after normalisation; a zero row overlaps nothing."""
    n = vectors.shape[0]
    block = min(block, n)
    tiles = upper_tiles(n, block)
    unit = pad_rows(unit_rows(vectors), block)

    def step(found: Coherence, tile: Int[Array, "2"]) -> tuple[Coherence, None]:
        g = gram(block_of(unit, tile[0], block), block_of(unit, tile[1], block))
        mask = tile_mask(tile[0], tile[1], block, n)
        return Coherence(
            jnp.maximum(found.largest, jnp.where(mask, jnp.abs(g), 0).max(0).max()),
            jnp.maximum(found.largest_signed, jnp.where(mask, g, -1).max(0).max()),
            found.mean_square + jnp.where(mask, g * g, 0).sum(0).sum() / (n * (n - 1) / 2),
        ), None

    zero = jnp.zeros((), vectors.dtype)
    order = jnp.stack([jnp.asarray(tiles.rows), jnp.asarray(tiles.columns)], 1)
    return jax.lax.scan(step, Coherence(zero, zero - 1, zero), order)[0]


def coherence_by_count(vectors: Float[Array, "n_vectors dim"]) -> Float[Array, " n_vectors"]:
    """The coherence of the first N rows, for every N, from one Gram matrix; 0 at N = 1."""
    unit = unit_rows(vectors)
    g = jnp.abs(jnp.tril(gram(unit, unit), -1))
    return jax.lax.cummax(g.max(1))


def unit_rows(x: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
    """Rows scaled to unit length; zero rows stay zero, and so does their gradient."""
    norm_sq = (x * x).sum(-1, keepdims=True)
    positive = norm_sq > 0
    return jnp.where(positive, x / jnp.sqrt(jnp.where(positive, norm_sq, 1)), 0)


class MeanOverlaps(NamedTuple):
    """Means over all pairs of distinct rows, after normalisation.

    Attributes:
        mean: Of ``⟨u, v⟩``: how much all directions have in common; 0 for random ones.
        mean_square: Of ``⟨u, v⟩²``: 1/d for random directions, the square of the Welch bound at
            least.
    """

    mean: Float[Array, ""]
    mean_square: Float[Array, ""]


def mean_overlaps(vectors: Float[Array, "n_vectors dim"]) -> MeanOverlaps:
    """Mean and mean square of the cosine of distinct rows, in ``O(N d²)``.

    ``sum_{i≠j} ⟨u_i, u_j⟩ = |sum_i u_i|² - N`` and ``sum_{i≠j} ⟨u_i, u_j⟩² = |U^T U|_F² - N``, so
    that the N×N table is not needed.

    Source: Welch 1974; Liu, Liu and Gore 2025 (arXiv 2505.10465), geometry of strong superposition.
    """
    n = vectors.shape[0]
    unit = unit_rows(vectors)
    total = jnp.sum(unit, axis=0)
    moments = jnp.matmul(unit.T, unit, precision="highest")
    pairs = n * (n - 1.0)
    return MeanOverlaps(
        (jnp.vdot(total, total) - n) / pairs, (jnp.vdot(moments, moments) - n) / pairs
    )


@functools.partial(jax.jit, static_argnames="block")
def overlap_shares(
    vectors: Float[Array, "n_vectors dim"],
    thresholds: Float[Array, " threshold"],
    *,
    block: int = 512,
) -> Float[Array, " threshold"]:
    """Share of the pairs of rows with ``|cos| > threshold``, for each threshold."""
    n = vectors.shape[0]
    block = min(block, n)
    tiles = upper_tiles(n, block)
    unit = pad_rows(unit_rows(vectors), block)

    def step(
        above: Float[Array, " threshold"], tile: Int[Array, "2"]
    ) -> tuple[Float[Array, " threshold"], None]:
        g = jnp.abs(gram(block_of(unit, tile[0], block), block_of(unit, tile[1], block)))
        # What is no pair of its own must exceed no threshold.
        g = jnp.where(tile_mask(tile[0], tile[1], block, n), g, -1)
        counts = jax.lax.map(lambda bound: jnp.sum(g > bound), thresholds)
        return above + counts / (n * (n - 1) / 2), None

    order = jnp.stack([jnp.asarray(tiles.rows), jnp.asarray(tiles.columns)], 1)
    return jax.lax.scan(step, jnp.zeros(thresholds.shape, vectors.dtype), order)[0]


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
    return int(np.ceil(0.5 / coherence)) - 1
