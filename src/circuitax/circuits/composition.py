"""How much of what one head writes is what a later head reads: Q-, K- and V-composition.

``score = ‖W_OV^1 R‖ / (‖W_OV^1‖ ‖R‖)`` with R the later head's ``W_QK``, ``W_QKᵀ`` or ``W_OV``.
Random heads score ``1/√d_model``, not 0, so a score stands beside its null and its maximum.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from circuitax.kernel.chain import Chain, chain_of
from circuitax.kernel.linalg import gram, safe_divide, safe_sqrt
from circuitax.kernel.spectrum import gram_singular_values
from circuitax.kernel.weights import HeadStack

KINDS = ("Q", "K", "V")
BLOCK_ENTRIES = 2**24  # of all heads' Gram rows held at once: 64 MiB in float32


class Composition(NamedTuple):
    """Scores of all pairs, ``[kind, writer layer, writer head, reader layer, reader head]``.

    The kinds are those of `KINDS`. Pairs that cannot compose, because the reader is not in a later
    layer, are NaN, not 0.
    """

    score: Float[Array, "kind n_layers n_heads n_layers n_heads"]
    z: Float[Array, "kind n_layers n_heads n_layers n_heads"]
    """``(score² - 1/d_model) / null_std``: deviations from a random rotation between the heads."""
    null_std: Float[Array, "kind n_layers n_heads n_layers n_heads"]
    """Of the squared score; its null mean is ``1/d_model`` for every pair."""
    maximum: Float[Array, "kind n_layers n_heads n_layers n_heads"]
    """The largest score that any rotation between the two heads could reach."""


def composition(heads: HeadStack, block_entries: int = BLOCK_ENTRIES) -> Composition:
    """Q-, K- and V-composition of every head with every later one, with nulls and maxima.

    With Grams ``P = W_OVᵀ W_OV`` and ``Q = R Rᵀ`` of trace 1, ``score² = tr(P Q)``. Under a Haar
    rotation between them its mean is 1/d and its variance ``2 f(P) f(Q) / ((d - 1)(d + 2))``,
    ``f(M) = tr M² - 1/d``. All pairs are one product of Gram entries, taken a block of rows at a
    time: ``N² d²`` operations instead of ``N² d_head² d``.

    Args:
        heads: All layers stacked, ``[n_layers, n_heads, ...]``; fold norms first
            (`folding.fold_norms`).
        block_entries: Bounds the memory.

    Source: framework paper, "composition scores" (column form ``‖W_QK W_OV‖`` for K, its transpose
        for Q, ``‖W_OV W_OV‖`` for V), as corrected by its erratum.
    Differs: the code behind the paper's first diagram cycled the product inside the norm (E15), and
        the scores had no exact null (E16).
    """
    squared, write_f, read_f = _squared_scores(heads, block_entries)
    d = heads.W_O.shape[-1]
    variance = 2 * write_f[None, :, None] * read_f[:, None, :] / ((d - 1) * (d + 2))
    null_std = safe_sqrt(variance).reshape(squared.shape)
    return Composition(
        _where_later(safe_sqrt(squared), heads),
        _where_later(safe_divide(squared - 1 / d, null_std), heads),
        _where_later(null_std, heads),
        _where_later(_maximum(heads).reshape(squared.shape), heads),
    )


def composition_scores(
    heads: HeadStack, block_entries: int = BLOCK_ENTRIES
) -> Float[Array, "kind n_layers n_heads n_layers n_heads"]:
    """The scores alone; NaN where the reader is not in a later layer."""
    squared, _, _ = _squared_scores(heads, block_entries)
    return _where_later(safe_sqrt(squared), heads)


class RotationNull(NamedTuple):
    """Mean and standard deviation of squared scores over sampled rotations."""

    mean: Float[Array, "kind n_layers n_heads n_layers n_heads"]
    std: Float[Array, "kind n_layers n_heads n_layers n_heads"]


def rotation_null(key: Key[Array, ""], heads: HeadStack, n_samples: int = 100) -> RotationNull:
    """The null by sampling: what all heads write is turned by a random rotation of the stream.

    The closed form of `composition` needs no sampling; this is its independent check.

    Args:
        key: Random key.
        heads: All layers stacked.
        n_samples: Rotations, at least 2.

    Raises:
        ValueError: If ``n_samples`` is less than 2.
    """
    if n_samples < 2:
        raise ValueError(f"n_samples={n_samples} must be at least 2")
    d_model = heads.W_O.shape[-1]

    def one(key: Key[Array, ""]) -> Array:
        R = jax.random.orthogonal(key, d_model, dtype=heads.W_O.dtype)
        return composition_scores(heads._replace(W_O=heads.W_O @ R)) ** 2

    squares = jax.lax.map(one, jax.random.split(key, n_samples))
    return RotationNull(squares.mean(axis=0), squares.std(axis=0, ddof=1))


def _squared_scores(heads: HeadStack, block_entries: int) -> tuple[Array, Array, Array]:
    """``tr(P Q)`` of all pairs, and ``f`` of all writers ``[n]`` and readers ``[kind, n]``."""
    n_layers, n_heads, d, d_head = heads.W_Q.shape
    n, width = n_layers * n_heads, max(d_head, heads.W_V.shape[-1])
    W_O = jnp.matrix_transpose(heads.W_O)
    sides = [(W_O, heads.W_V), (heads.W_Q, heads.W_K), (heads.W_K, heads.W_Q), (heads.W_V, W_O)]
    # A Gram M Mᵀ with M = near farᵀ is (near farᵀ far) nearᵀ: two thin factors.
    left = jnp.stack([_pad_last(near @ gram(far), width) for near, far in sides])
    right = jnp.stack([_pad_last(near, width) for near, _ in sides])
    left, right = left.reshape(4 * n, d, width), right.reshape(4 * n, d, width)
    rows = max(1, min(d, block_entries // (4 * n * d)))
    n_blocks = -(-d // rows)
    padded = jnp.pad(left, ((0, 0), (0, n_blocks * rows - d), (0, 0)))

    # A scan, although half of each Gram would do: unrolled, the compiler holds all blocks at once.
    def step(sums: tuple[Array, Array], i: Array) -> tuple[tuple[Array, Array], None]:
        thin = jax.lax.dynamic_slice_in_dim(padded, i * rows, rows, axis=1)
        block = jnp.einsum("nik,njk->nij", thin, right).reshape(4 * n, -1)
        products, squares = sums
        return (products + block[:n] @ block[n:].T, squares + jnp.sum(block**2, axis=1)), None

    start = jnp.zeros((n, 3 * n), left.dtype), jnp.zeros(4 * n, left.dtype)
    (products, squares), _ = jax.lax.scan(step, start, jnp.arange(n_blocks))
    traces = jnp.sum(left * right, axis=(1, 2))
    squared = safe_divide(products, traces[:n, None] * traces[None, n:])
    squared = jnp.moveaxis(squared.reshape(n_layers, n_heads, 3, n_layers, n_heads), 2, 0)
    f = safe_divide(squares, traces**2) - 1 / d
    return squared, f[:n], f[n:].reshape(3, n)


def _pad_last(x: Array, size: int) -> Array:
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, size - x.shape[-1])])


def _maximum(heads: HeadStack) -> Array:
    """``√(Σ_i s_i(A)² s_i(B)²) / (‖A‖ ‖B‖)``, singular values in falling order."""
    ov = gram_singular_values(chain_of(heads.W_V, heads.W_O))
    qk = gram_singular_values(chain_of(heads.W_Q, jnp.matrix_transpose(heads.W_K)))
    width = max(ov.shape[-1], qk.shape[-1])

    def shares(s: Array) -> Array:
        squared = _pad_last(s.reshape(-1, s.shape[-1]) ** 2, width)
        return safe_divide(squared, jnp.sum(squared, axis=1, keepdims=True))

    ov, qk = shares(ov), shares(qk)
    return safe_sqrt(jnp.stack([ov @ qk.T, ov @ qk.T, ov @ ov.T]))


def _where_later(values: Array, heads: HeadStack) -> Array:
    layer = jnp.arange(heads.W_Q.shape[0])
    later = layer[None, :, None, None, None] < layer[None, None, None, :, None]
    return jnp.where(later, values, jnp.nan)


def composed(
    heads: HeadStack, kind: str, writer: tuple[int, int], reader: tuple[int, int]
) -> Chain:
    """The product whose norm a score is: ``W_OV W_QK`` (Q), ``W_OV W_QKᵀ`` (K), ``W_OV W_OV`` (V).

    Args:
        heads: All layers stacked.
        kind: "Q", "K" or "V".
        writer: (layer, head).
        reader: (layer, head) of a later layer.

    Raises:
        ValueError: If ``kind`` is another name.
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} must be one of {KINDS}")
    W_Q, W_K = heads.W_Q[reader], heads.W_K[reader]
    read = {
        "Q": (W_Q, W_K.T),
        "K": (W_K, W_Q.T),
        "V": (heads.W_V[reader], heads.W_O[reader]),
    }[kind]
    return chain_of(heads.W_V[writer], heads.W_O[writer], *read)
