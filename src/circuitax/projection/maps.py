"""Random linear maps R^n -> R^m as pure functions of a key, and one pair under many of them.

The entries are drawn column by column. A column depends on its own key and on nothing else, so a
map is the same whatever the block in which it is drawn, and the first m columns of a wider map are
the map with m columns.

A map is applied block by block, so its matrix is rarely held as a whole. Rows are points, and
``f(z) = z @ P`` with P [dim_in, dim_out]. The source S0 ("Some Structures in Transformer
Architectures", Menon 2025) writes ``f(z)_k = z · x^k``, so its x^k are the columns of P. Its
Theorem 27 states one map and proves another, which is row E8 of docs/errata.md.

The pairs under one map share its entries and are dependent, so goodness of fit and failure rates of
a single pair are always taken over maps.
"""

import enum
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Key

from circuitax.kernel.checks import check_range, choice, choose_fields, whole
from circuitax.kernel.compiled import compiled
from circuitax.kernel.keys import check_key, derive, member_keys


class EntryLaw(enum.Enum):
    """Laws with mean 0 and variance 1; their fourth moments are in `kurtosis`."""

    gaussian = "gaussian"
    rademacher = "rademacher"
    achlioptas = "achlioptas"
    li = "li"


def draw_column(
    key: Key[Array, ""], law: EntryLaw | str, dim_in: int, dtype: DTypeLike = jnp.float32
) -> Float[Array, " {dim_in}"]:
    """One column of independent entries of the given law.

    ``gaussian`` N(0, 1); ``rademacher`` ±1; the sparse laws are ``±√s`` with probability 1/(2s)
    each and 0 otherwise, with s = 3 (``achlioptas``) and s = √dim_in (``li``).

    Source: Achlioptas 2003, Theorem 1.1; Li, Hastie and Church 2006, section 1.
    """
    law = choice("law", EntryLaw, law)
    if law is EntryLaw.gaussian:
        return jax.random.normal(key, (dim_in,), dtype)
    if law is EntryLaw.rademacher:
        return jax.random.rademacher(key, (dim_in,), dtype)
    s = inverse_density(law, dim_in)
    # One uniform serves sign and support: the two outer tails have mass 1/(2s) each.
    u = jax.random.uniform(key, (dim_in,), dtype)
    sign = (u < 0.5 / s).astype(dtype) - (u >= 1 - 0.5 / s).astype(dtype)
    return math.sqrt(s) * sign


def draw_columns(
    keys: Key[Array, " n_columns"], law: EntryLaw | str, dim_in: int, dtype: DTypeLike = jnp.float32
) -> Float[Array, "{dim_in} n_columns"]:
    """The columns of several keys side by side; see `draw_column`."""
    return jax.vmap(lambda key: draw_column(key, law, dim_in, dtype), out_axes=1)(keys)


def inverse_density(law: EntryLaw | str, dim_in: int) -> float:
    """The s of a law whose entries are non-zero with probability 1/s."""
    law = choice("law", EntryLaw, law)
    if law is EntryLaw.achlioptas:
        return 3.0
    return math.sqrt(dim_in) if law is EntryLaw.li else 1.0


def kurtosis(law: EntryLaw | str, dim_in: int) -> float:
    """The fourth moment ``E r^4`` of an entry: 3, 1, 3 and √dim_in in the order of `EntryLaw`.

    It decides how fast ``‖f(z)‖²`` concentrates, through `laws.ratio_variance`.
    """
    law = choice("law", EntryLaw, law)
    return 3.0 if law is EntryLaw.gaussian else inverse_density(law, dim_in)


def padded_dim(dim_in: int) -> int:
    """The smallest power of two that is at least ``dim_in``."""
    return 1 << (dim_in - 1).bit_length()


def hadamard_transform(x: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
    """The orthonormal Walsh–Hadamard transform ``x H / √dim``, in O(dim log dim) a vector."""
    dim = x.shape[-1]
    y = x.reshape(*x.shape[:-1], *(2,) * (dim.bit_length() - 1))
    for axis in range(x.ndim - 1, y.ndim):
        first, second = jnp.split(y, 2, axis)
        y = jnp.concatenate([first + second, first - second], axis)
    return y.reshape(x.shape) / math.sqrt(dim)


def subsampled_hadamard(
    key: Key[Array, ""], points: Float[Array, "*batch dim_in"], dim_out: int
) -> Float[Array, "*batch {dim_out}"]:
    """``f(z) = √(D/m) S H Σ z``: signs Σ, orthonormal H, m of D coordinates without repeats.

    D is ``dim_in`` rounded up to a power of two (padded with zeros), so at m = D the map is an
    isometry; ``E‖f(z)‖² = ‖z‖²`` for every m.

    Source: Ailon and Chazelle 2006; Tropp 2011, section 1.2.
    """
    dim_in = points.shape[-1]
    padded = padded_dim(dim_in)
    signs = jax.random.rademacher(derive(key, "signs"), (dim_in,), points.dtype)
    rows = jax.random.permutation(derive(key, "rows"), padded)[:dim_out]
    z = points * jnp.broadcast_to(signs, points.shape)
    z = jnp.pad(z, [(0, 0)] * (points.ndim - 1) + [(0, padded - dim_in)])
    return math.sqrt(padded / dim_out) * hadamard_transform(z)[..., rows]


class MapFamily(enum.Enum):
    """Families of random maps. `gain` is the factor of each on squared lengths."""

    gaussian = "gaussian"  # N(0, 1/m)
    rademacher = "rademacher"  # ±1/√m: what Theorem 27 states
    proof = "proof"  # ±√((1+ε)/m): what its proof uses (E8)
    achlioptas = "achlioptas"  # two thirds zeros
    li = "li"  # density 1/√n
    hadamard = "hadamard"  # subsampled, randomised
    lecun = "lecun"  # Flax's initialisers of an [n, m] kernel, unscaled
    glorot = "glorot"
    he = "he"
    orthogonal = "orthogonal"


_LAWS = {
    MapFamily.gaussian: EntryLaw.gaussian,
    MapFamily.rademacher: EntryLaw.rademacher,
    MapFamily.proof: EntryLaw.rademacher,
    MapFamily.achlioptas: EntryLaw.achlioptas,
    MapFamily.li: EntryLaw.li,
}
# The very functions that flax.linen.initializers re-exports.
_INITIALISERS = {
    MapFamily.lecun: jax.nn.initializers.lecun_normal(),
    MapFamily.glorot: jax.nn.initializers.glorot_normal(),
    MapFamily.he: jax.nn.initializers.he_normal(),
    MapFamily.orthogonal: jax.nn.initializers.orthogonal(),
}


@dataclass(frozen=True)
class MapSpec:
    """A random map: its family and sizes.

    Args:
        family: A `MapFamily` or its name: ``gaussian``, ``rademacher``, ``proof``, ``achlioptas``,
            ``li``, ``hadamard``, ``lecun``, ``glorot``, ``he`` or ``orthogonal``.
        dim_in: n, at least 1.
        dim_out: m, at least 1; at most n for ``orthogonal``, at most the padded n for ``hadamard``.
        epsilon: ε in (0, 1) of the proof's map; must be left out for every other family.
        unit_gain: Divide by ``√gain``, so that squared lengths are kept on average.

    Raises:
        ValueError: If a name is unknown or a field is outside its range.
    """

    family: MapFamily
    dim_in: int
    dim_out: int
    epsilon: float | None = None
    unit_gain: bool = False

    def __post_init__(self) -> None:
        choose_fields(self)
        for name in ("dim_in", "dim_out"):
            size = whole(name, getattr(self, name))
            if size < 1:
                raise ValueError(f"{name}={size} must be at least 1")
        largest = {
            MapFamily.orthogonal: self.dim_in,
            MapFamily.hadamard: padded_dim(self.dim_in),
        }.get(self.family)
        if largest is not None and self.dim_out > largest:
            raise ValueError(
                f"dim_out={self.dim_out} must be at most {largest} for family={self.family.name} "
                f"with dim_in={self.dim_in}"
            )
        if self.family is MapFamily.proof:
            if self.epsilon is None or not 0 < self.epsilon < 1:
                raise ValueError(f"epsilon={self.epsilon} must be in (0, 1) for family=proof")
        elif self.epsilon is not None:
            raise ValueError(
                f"epsilon={self.epsilon} belongs to family=proof, not to {self.family.name}"
            )


def gain(spec: MapSpec) -> float:
    """``E‖f(z)‖² / ‖z‖²``, exactly."""
    n, m = spec.dim_in, spec.dim_out
    factors = {
        MapFamily.lecun: m / n,
        MapFamily.orthogonal: m / n,
        MapFamily.he: 2 * m / n,
        MapFamily.glorot: 2 * m / (n + m),
    }
    if spec.family is MapFamily.proof and spec.epsilon is not None:
        return 1 + spec.epsilon
    return factors.get(spec.family, 1.0)


def project(
    key: Key[Array, ""],
    points: Float[Array, "*batch dim_in"],
    spec: MapSpec,
    *,
    block: int = 256,
) -> Float[Array, "*batch dim_out"]:
    """The images ``f(z)`` of points under one random map; for many maps, vmap over keys.

    Maps with independent entries hold at most ``dim_in x block`` of them at a time and give the
    same map for every ``block``. Initialisers need the whole kernel. Products are taken at the
    highest precision of the backend (no TF32, no bf16).

    Args:
        key: Consumed; with ``spec`` it names the map.
        points: Rows of length ``spec.dim_in``.
        spec: The family and size.
        block: Columns drawn at a time, at least 1.

    Raises:
        ValueError: If ``points`` has another length than ``spec.dim_in`` or is not finite, or
            ``block`` is below 1.

    Source: S0 Theorem 27, proof, for ``rademacher`` and ``proof``.
    """
    check_key(key, one=True)
    check_range("points", points, "(-inf, inf)")
    if not isinstance(spec, MapSpec):
        raise ValueError(f"spec={spec!r} must be a MapSpec, such as MapSpec('gaussian', 500, 40)")
    points = jnp.asarray(points)
    if points.shape[-1:] != (spec.dim_in,):
        raise ValueError(
            f"points has shape {points.shape}, must be rows of spec.dim_in={spec.dim_in}"
        )
    return _project(key, points, spec, whole("block", block, 1))


@compiled("spec", "block")
def _project(
    key: Key[Array, ""], points: Float[Array, "*batch dim_in"], spec: MapSpec, block: int
) -> Float[Array, "*batch dim_out"]:
    scale = 1 / math.sqrt(gain(spec)) if spec.unit_gain else 1.0
    if spec.family is MapFamily.hadamard:
        return scale * subsampled_hadamard(key, points, spec.dim_out)
    if spec.family in _INITIALISERS:
        kernel = _INITIALISERS[spec.family](key, (spec.dim_in, spec.dim_out), points.dtype)
        return scale * jnp.matmul(points, kernel, precision="highest")
    return scale * entry_scale(spec) * row_features(key, points, spec, block=block)


def row_features(
    key: Key[Array, ""],
    points: Float[Array, "*batch dim_in"],
    spec: MapSpec,
    *,
    block: int = 256,
) -> Float[Array, "*batch dim_out"]:
    """The unscaled inner products ``z · r_k`` with columns r_k of unit variance.

    Every m has ``f_m(z) = c(m) (z · r_1, ..., z · r_m)``, so cumulative sums over k give the
    distortion at every m from one map; see `by_dimension`.
    """
    law = _LAWS[spec.family]
    n_blocks = -(-spec.dim_out // block)
    keys = member_keys(key, n_blocks * block).reshape(n_blocks, block)

    def one_block(keys: Key[Array, " block"]) -> Float[Array, "*batch block"]:
        columns = draw_columns(keys, law, spec.dim_in, points.dtype)
        return jnp.matmul(points, columns, precision="highest")

    if n_blocks == 1:
        return one_block(keys[0, : spec.dim_out])
    images = jnp.moveaxis(jax.lax.map(one_block, keys), 0, -2)
    return images.reshape(*points.shape[:-1], n_blocks * block)[..., : spec.dim_out]


def nested_features(
    key: Key[Array, ""],
    points: Float[Array, "*batch dim_in"],
    family: MapFamily | str,
    dim_out: int,
) -> Float[Array, "*batch {dim_out}"]:
    """Features whose first m, divided by √m, are images under a unit-gain map to m dimensions."""
    family = choice("family", MapFamily, family)
    law = MapFamily.rademacher if family is MapFamily.proof else family
    spec = MapSpec(law, points.shape[-1], dim_out, unit_gain=True)
    return math.sqrt(dim_out) * project(key, points, spec)


def entry_scale(spec: MapSpec) -> float:
    """The factor c(m) on unit-variance entries: ``√(1/m)``, or ``√((1+ε)/m)`` in the proof."""
    return math.sqrt((1 + (spec.epsilon or 0.0)) / spec.dim_out)


def materialise(
    key: Key[Array, ""], spec: MapSpec, dtype: DTypeLike = jnp.float32
) -> Float[Array, "dim_in dim_out"]:
    """The matrix P of a map, for tests and figures; `project` never needs it."""
    return project(key, jnp.eye(spec.dim_in, dtype=dtype), spec)


def pair_ratios(
    keys: Key[Array, " n_maps"],
    difference: Float[Array, " dim_in"],
    spec: MapSpec,
    *,
    batch: int = 250,
) -> Float[Array, " n_maps"]:
    """``‖f(z)‖² / ‖z‖²`` of one vector ``z = x − y`` under one map for each key."""
    norm_sq = (difference * difference).sum()

    def one(key: Key[Array, ""]) -> Float[Array, ""]:
        image = project(key, difference, spec)
        return (image * image).sum() / norm_sq

    return jax.lax.map(one, keys, batch_size=batch)
