"""Q-, K- and V-composition: overlap of one head's outputs with a later head's reads.

``score = ‖W_OV^1 R‖ / (‖W_OV^1‖ ‖R‖)`` with R the later head's ``W_QK``, ``W_QKᵀ`` or ``W_OV``.
Random heads score ``1/√d_model``, not 0, so every score comes with what random heads would score
and with the most that these two heads could.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import itertools
import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from circuitax.circuits.weights.folding import check_pre_ln, fold_read, over_heads
from circuitax.circuits.weights.heads import rotation
from circuitax.display.tables import NumberTable, counted, documented
from circuitax.kernel.attention import per_head
from circuitax.kernel.chain import Chain, chain_of
from circuitax.kernel.checks import whole
from circuitax.kernel.compiled import compiled
from circuitax.kernel.gauge import centre_last
from circuitax.kernel.linalg import gram, safe_divide, safe_sqrt, scaled_to_one
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.positions import Positions
from circuitax.kernel.shown import known, largest, tabled
from circuitax.kernel.spectrum import gram_singular_values
from circuitax.kernel.weights import HeadStack

KINDS = ("Q", "K", "V")
BLOCK_ENTRIES = 5 * 2**20  # Gram entries held at once: 20 MiB in float32, about a CPU's cache
REGISTER = 16  # numbers of a vector register: products of other sizes are slower
# More groups skip more pairs that cannot compose, but need smaller products: this many, or more
# where each still has so many readers.
READER_GROUPS, GROUP_READERS = 4, 256


@tabled
@documented
class Composition(NamedTuple):
    """Scores of all pairs, ``[kind, writer layer, writer head, reader layer, reader head]``.

    Attributes:
        score: ``‖W_OV R‖ / (‖W_OV‖ ‖R‖)``, in [0, 1].
        z: ``(score² - 1/d_model) / null_std``: deviations from a random rotation between the heads.
            NaN also where a head is zero, which has nothing to rotate; its score is 0.
        null_std: Of the squared score; its null mean is ``1/d_model`` for every pair.
        maximum: The largest score that any rotation between the two heads could reach.
    """

    score: Float[Array, "kind n_layers n_heads n_layers n_heads"]
    z: Float[Array, "kind n_layers n_heads n_layers n_heads"]
    null_std: Float[Array, "kind n_layers n_heads n_layers n_heads"]
    maximum: Float[Array, "kind n_layers n_heads n_layers n_heads"]

    @property
    def Q(self) -> "Composition":
        """Through queries alone, without the axis of kinds."""
        return Composition(*(part[0] for part in self))

    @property
    def K(self) -> "Composition":
        """Through keys alone."""
        return Composition(*(part[1] for part in self))

    @property
    def V(self) -> "Composition":
        """Through values alone."""
        return Composition(*(part[2] for part in self))

    def _table(self) -> NumberTable | None:
        if np.ndim(self.score) != 5 or not known(*self):
            return None
        score, z, _, maximum = (np.asarray(part) for part in self)
        rows = [
            (f"{KINDS[k]} {l}.{h} → {m}.{i}", [part[k, l, h, m, i] for part in (score, z, maximum)])
            for k, l, h, m, i in largest(z)
        ]
        _, n_layers, n_heads, *_ = score.shape
        size = f"{counted(n_layers, 'layer')} of {counted(n_heads, 'head')}"
        title = f"Composition of {size}; pairs farthest from chance"
        return NumberTable(title, ("score", "z", "maximum"), rows)


@compiled("offset", "block_entries")
def composition(
    model: Model, *, offset: int = 0, block_entries: int = BLOCK_ENTRIES
) -> Composition:
    """Q-, K- and V-composition of every head with every later one, with nulls and maxima.

    With Grams ``P = W_OVᵀ W_OV`` of what is written and ``G = R Rᵀ`` of what is read, at trace 1,
    ``score² = tr(P G)``. Under a Haar rotation between them the square has the mean 1/d and the
    variance ``2 f(P) f(G) / ((d - 1)(d + 2))``, ``f(M) = tr M² - 1/d``. All pairs are one product
    of Gram entries, taken tile by tile, upper halves only: ``N² d²`` operations at most, instead of
    ``N² d_head² d``.

    Args:
        model: One model, not an ensemble. Gains and centring of norms before attention are folded
            into the maps, as in `token_qk`. Maps may have any scale; those of half precision are
            read in single precision.
        offset: How many steps the source lies before the destination, for rotary positions, whose
            ``W_QK`` depends on it; nothing else does.
        block_entries: Largest number of entries held at once; it bounds the memory.

    Raises:
        ValueError: If the model is an ensemble or post-LN.

    Source: framework paper, "composition scores" (column form ``‖W_QK W_OV‖`` for K, its transpose
        for Q, ``‖W_OV W_OV‖`` for V), as corrected by its erratum.
    Differs: the code behind the paper's first diagram cycled the product inside the norm (E15), and
        the scores had no exact null (E16).
    """
    whole("block_entries", block_entries, 1)
    heads, d = head_maps(model, offset), model.d_model
    circuits = _circuits(heads)
    squared = _squared_scores(circuits, block_entries)
    trace, trace_of_square = circuits.traces()
    f = safe_divide(trace_of_square, trace**2) - 1 / d
    variance = 2 * f[0, None, :, :, None, None] * f[1:, None, None] / ((d - 1) * (d + 2))
    null_std = safe_sqrt(variance)
    alive = (trace[0, None, :, :, None, None] * trace[1:, None, None]) > 0
    z = jnp.where(alive, safe_divide(squared - 1 / d, null_std), jnp.nan)
    return Composition(
        _where_later(safe_sqrt(squared), heads),
        _where_later(z, heads),
        _where_later(null_std, heads),
        _where_later(_maximum(heads).reshape(squared.shape), heads),
    )


@compiled("offset", "block_entries")
def composition_scores(
    model: Model, *, offset: int = 0, block_entries: int = BLOCK_ENTRIES
) -> Float[Array, "kind n_layers n_heads n_layers n_heads"]:
    """The scores of `composition` alone; NaN where the reader is not in a later layer.

    Args:
        model: One model, not an ensemble; norms are folded as for `composition`.
        offset: As for `composition`.
        block_entries: Largest number of entries held at once; it bounds the memory.

    Raises:
        ValueError: If the model is an ensemble or post-LN.
    """
    whole("block_entries", block_entries, 1)
    return _scores(head_maps(model, offset), block_entries)


class RotationNull(NamedTuple):
    """Mean and standard deviation of squared scores over sampled rotations."""

    mean: Float[Array, "kind n_layers n_heads n_layers n_heads"]
    std: Float[Array, "kind n_layers n_heads n_layers n_heads"]


@compiled("n_samples")
def rotation_null(model: Model, key: Key[Array, ""], *, n_samples: int = 100) -> RotationNull:
    """The null by sampling: a random rotation of the stream turns the outputs of all heads."""
    heads = head_maps(model)
    W_O, _ = scaled_to_one(heads.W_O)

    def one(key: Key[Array, ""]) -> Array:
        R = jax.random.orthogonal(key, model.d_model, dtype=W_O.dtype)
        return _scores(heads._replace(W_O=W_O @ R), BLOCK_ENTRIES) ** 2

    squares = jax.lax.map(one, jax.random.split(key, n_samples))
    return RotationNull(squares.mean(axis=0), squares.std(axis=0, ddof=1))


def head_maps(model: Model, offset: int = 0) -> HeadStack:
    """The maps of every query head, queries turned by an offset, for scores of composition."""
    check_one_member(model)
    check_pre_ln(model, "composition scores")
    if not model.n_layers:
        raise ValueError("model has no layers, must have heads")
    offset = whole("offset", offset)
    heads = _folded_heads(model)
    if model.spec.positions == Positions.rotary:
        W_Q, _ = scaled_to_one(heads.W_Q)
        heads = heads._replace(W_Q=W_Q @ rotation(model.spec, offset, W_Q.dtype))
    return heads


def _folded_heads(model: Model) -> HeadStack:
    """The maps as a bare stream meets them; what is written loses the mean that norms drop."""
    heads, norm, gain = per_head(model), model.spec.norm, over_heads(model.blocks.attention_norm)
    W_Q, W_K, W_V = (fold_read(W, None, norm, gain)[0] for W in (heads.W_Q, heads.W_K, heads.W_V))
    W_O = centre_last(heads.W_O) if norm.centres else heads.W_O
    return heads._replace(W_Q=W_Q, W_K=W_K, W_V=W_V, W_O=W_O)


def _scores(heads: HeadStack, block_entries: int) -> Array:
    return _where_later(safe_sqrt(_squared_scores(_circuits(heads), block_entries)), heads)


class _Circuits(NamedTuple):
    """Grams of heads' outputs and reads, ``near G nearᵀ``, layers first; write and kind Q, K, V."""

    near: tuple[Array, Array, Array, Array]  # W_O [.., width, d], and W_Q, W_K, W_V [.., d, width]
    size: tuple[Array, Array, Array, Array]  # [n_layers, n_heads]
    near_gram: tuple[Array, Array, Array, Array]  # of near maps: [.., width, width]
    far_gram: tuple[Array, Array, Array, Array]  # G: [n_layers, n_heads, width, width]

    def traces(self) -> tuple[Array, Array]:
        """Traces of the Grams, and of their squares: ``[side, n_layers, n_heads]``."""
        products = [G @ near for near, G in zip(self.near_gram, self.far_gram, strict=True)]
        trace = jnp.stack([jnp.trace(M, axis1=-2, axis2=-1) for M in products])
        return trace, jnp.stack([jnp.einsum("...ij,...ji->...", M, M) for M in products])


def _circuits(heads: HeadStack) -> _Circuits:
    near = (heads.W_O, heads.W_Q, heads.W_K, heads.W_V)
    width = max(heads.W_O.shape[-2], heads.W_Q.shape[-1])

    def of_one_layer(maps: tuple[Array, ...]) -> tuple[list[Array], list[Array]]:
        unit, size = zip(*map(scaled_to_one, maps), strict=True)
        columns = (jnp.matrix_transpose(unit[0]), *unit[1:])
        return [gram(_pad_last(W, width)) for W in columns], list(size)

    (write, Q, K, V), size = jax.lax.map(of_one_layer, near)
    return _Circuits(near, tuple(size), (write, Q, K, V), (V, K, Q, write))


def _squared_scores(circuits: _Circuits, block_entries: int) -> Array:
    """``tr(P Q) / (tr P · tr Q)`` of all pairs; 0 where the reader is not in a later layer."""
    n_layers, n_heads, width, _ = circuits.far_gram[0].shape
    d, dtype = circuits.near[1].shape[2], circuits.far_gram[0].dtype
    # Grams are symmetric. The tiles form a ring, and each is paired with itself and with the half
    # of the ring after it, in steps of equal shape: every pair of tiles occurs once, but for those
    # half an even ring apart, which occur twice.
    size = _tile_size(math.isqrt(block_entries // max(1, 4 * n_layers * n_heads)), d)
    n_tiles = -(-d // size)
    # Readers are grouped by layers; each group meets the writers before it only.
    n_groups = max(READER_GROUPS, 3 * n_heads * (n_layers - 1) // GROUP_READERS)
    bounds = [1 + (n_layers - 1) * i // n_groups for i in range(n_groups + 1)]
    groups = [(start, stop) for start, stop in itertools.pairwise(bounds) if start < stop]

    def tile(side: int, layers: tuple[int, int], i: Array) -> Array:
        start = jnp.minimum(i * size, d - size)  # at the end, rows that an earlier tile has are 0
        x, c = circuits.near[side], circuits.size[side][slice(*layers)]
        # All axes at once: a slice of layers by itself would be copied before the loop.
        first, n = layers[0], layers[1] - layers[0]
        if side:
            shape = (n, n_heads, size, x.shape[3])
            rows = jax.lax.dynamic_slice(x, (first, 0, start, 0), shape)
        else:
            shape = (n, n_heads, x.shape[2], size)
            rows = jnp.matrix_transpose(jax.lax.dynamic_slice(x, (first, 0, 0, start), shape))
        rows = _pad_last(rows.astype(dtype) / c[..., None, None], width)
        return jnp.where((start + jnp.arange(size) >= i * size)[:, None], rows, 0)

    def written(i: Array) -> Array:
        return tile(0, (0, n_layers - 1), i)

    def read(layers: tuple[int, int], i: Array) -> Array:
        return jnp.stack([tile(side, layers, i) for side in (1, 2, 3)], axis=1)

    write_G, *read_G = circuits.far_gram
    group_G = [jnp.stack([G[slice(*layers)] for G in read_G], axis=1) for layers in groups]

    def along(sums: tuple[Array, ...], i: Array) -> tuple[tuple[Array, ...], None]:
        # The tile that all steps share is the right factor, turned once: products of rows with
        # rows would turn it in each of them.
        to_writers = _turned(write_G[:-1], written(i))
        to_readers = [
            _turned(G, read(layers, i)) for G, layers in zip(group_G, groups, strict=True)
        ]

        @partial(jax.checkpoint, prevent_cse=False)  # else a gradient would store all Grams
        def step(sums: tuple[Array, ...], offset: Array) -> tuple[tuple[Array, ...], None]:
            other = (i + offset) % n_tiles
            once = (offset == 0) | (2 * offset == n_tiles)
            times = jnp.where(once, 1.0, 2.0).astype(to_writers.dtype)
            P = _flat(times * written(other) @ to_writers)
            new = []
            for layers, right, total in zip(groups, to_readers, sums, strict=True):
                Q = _flat(read(layers, other) @ right)
                new.append(total + P[: (layers[1] - 1) * n_heads] @ Q.T)
            return tuple(new), None

        return jax.lax.scan(step, sums, jnp.arange(n_tiles // 2 + 1))[0], None

    zeros = tuple(
        jnp.zeros(((stop - 1) * n_heads, (stop - start) * 3 * n_heads), dtype)
        for start, stop in groups
    )
    sums = jax.lax.scan(along, zeros, jnp.arange(n_tiles))[0]
    whole = jnp.zeros((n_layers, n_heads, n_layers, 3, n_heads), dtype)
    for (start, stop), products in zip(groups, sums, strict=True):
        products = products.reshape(stop - 1, n_heads, stop - start, 3, n_heads)
        whole = whole.at[: stop - 1, :, start:stop].set(products)
    trace, _ = circuits.traces()
    scale = trace[0, None, :, :, None, None] * trace[1:, None, None, :, :]
    return safe_divide(jnp.moveaxis(whole, 3, 0), scale)


def _tile_size(most: int, d: int) -> int:
    """Rows of a tile up to a maximum: whole registers, and the fewest wasted entries."""
    most = max(1, min(most, d))
    whole = range(most // REGISTER * REGISTER, most // 2, -REGISTER)

    def entries(size: int) -> int:
        n_tiles = -(-d // size)
        return n_tiles * (n_tiles // 2 + 1) * size**2

    return min(whole, key=entries, default=most)


def _turned(G: Array, rows: Array) -> Array:
    """``G rowsᵀ``; G is symmetric."""
    return jnp.einsum("...kl,...il->...ki", G, rows)


def _flat(blocks: Array) -> Array:
    """Every head's block as a row."""
    return blocks.reshape(-1, blocks.shape[-2] * blocks.shape[-1])


def _pad_last(x: Array, size: int) -> Array:
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, size - x.shape[-1])])


def _maximum(heads: HeadStack) -> Array:
    """``√(Σ_i s_i(A)² s_i(B)²) / (‖A‖ ‖B‖)``, singular values in falling order."""
    width = max(heads.W_Q.shape[-1], heads.W_V.shape[-1])
    maps = (heads.W_V, heads.W_Q, jnp.matrix_transpose(heads.W_O), heads.W_K)
    unit = [_pad_last(scaled_to_one(W)[0], width) for W in maps]
    first, second = jnp.stack(unit[:2]), jnp.stack(unit[2:])
    squared = gram_singular_values(chain_of(first, jnp.matrix_transpose(second))) ** 2
    shares = safe_divide(squared, jnp.sum(squared, axis=-1, keepdims=True))
    ov, qk = shares.reshape(2, -1, width)
    return safe_sqrt(jnp.stack([ov @ qk.T, ov @ qk.T, ov @ ov.T]))


def _where_later(values: Array, heads: HeadStack) -> Array:
    layer = jnp.arange(heads.W_Q.shape[0])
    later = layer[None, :, None, None, None] < layer[None, None, None, :, None]
    return jnp.where(later, values, jnp.nan)


def composed(model: Model, kind: str, writer: tuple[int, int], reader: tuple[int, int]) -> Chain:
    """The product behind a score: ``W_OV W_QK`` (Q), ``W_OV W_QKᵀ`` (K), ``W_OV W_OV`` (V)."""
    check_pre_ln(model, "composition scores")
    heads = _folded_heads(model)
    W_Q, W_K = heads.W_Q[reader], heads.W_K[reader]
    read = {
        "Q": (W_Q, W_K.T),
        "K": (W_K, W_Q.T),
        "V": (heads.W_V[reader], heads.W_O[reader]),
    }[kind]
    return chain_of(heads.W_V[writer], heads.W_O[writer], *read)
