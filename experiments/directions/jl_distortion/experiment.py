"""Johnson–Lindenstrauss distortion against m: map families, point clouds, numbers of points."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.kernel.keys import derive, member_keys
from circuitax.lab.lab import Lab
from circuitax.projection.distortion import distortion
from circuitax.projection.laws import Tail, jl_epsilon, ratio_quantile
from circuitax.projection.maps import MapFamily, MapSpec, nested_features, project
from circuitax.projection.stream import quantile, summarise
from experiments.directions.shared.by_dimension import extremes_by_dimension

FAMILIES = (
    MapFamily.gaussian,
    MapFamily.rademacher,
    MapFamily.achlioptas,
    MapFamily.li,
    MapFamily.hadamard,
    MapFamily.lecun,
    MapFamily.orthogonal,
)
INITIALISERS = (MapFamily.lecun, MapFamily.glorot, MapFamily.he, MapFamily.orthogonal)
CLOUDS = ("gaussian", "clustered", "one_hot", "embeddings")
LEVELS = (0.001, 0.05, 0.25, 0.5, 0.75, 0.95, 0.999)
LIMITS = (-1.0, 3.5)  # past the 99.9 % point of χ²_8/8
STEP = 8


@dataclass(frozen=True)
class Spec:
    """Sizes of the sweep over m.

    Attributes:
        dim_in: n, at least ``n_points``, so that one-hot points are distinct.
        n_points: N of the clouds compared over families.
        more_points: Further N, for the growth of the worst pair.
        max_dim: Largest m, a multiple of 8.
        n_maps: Maps of every family.
    """

    dim_in: int = 512
    n_points: Annotated[int, "[16, dim_in]"] = 256
    more_points: Annotated[tuple[int, ...], "[2, inf)"] = (32, 2048)
    max_dim: Annotated[int, "[8, dim_in]"] = 256
    n_maps: Annotated[int, "[2, inf)"] = 8

    def __post_init__(self) -> None:
        if self.max_dim % STEP:
            raise ValueError(f"max_dim={self.max_dim} must be a multiple of {STEP}")


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Worst pairs by family, cloud and N, and the whole distribution of Gaussian maps."""
    dims = np.arange(STEP, spec.max_dim + 1, STEP)
    n_points = sorted({*spec.more_points, spec.n_points})
    tokens = _embeddings(spec, lab)
    families = lab.stage("families", _families, spec, derive(key, "families"), tokens)
    gains = lab.stage("gains", _gains, spec, derive(key, "gains"))
    points = lab.stage("points", _points, spec, derive(key, "points"), n_points)
    bands = lab.stage("bands", _bands, spec, derive(key, "bands"), dims)
    guaranteed = [[jl_epsilon(n, int(m), tail=Tail.cubic) for m in dims] for n in n_points]
    return xr.Dataset(
        {
            "worst": (("cloud", "family", "map", "dim_out"), families),
            "worst_by_points": (("n_points", "map", "dim_out"), points),
            "guaranteed": (("n_points", "dim_out"), np.array(guaranteed)),
            "quantile": (("level", "dim_out"), bands),
            "law_quantile": (
                ("level", "dim_out"),
                np.stack([ratio_quantile(q, dims) - 1 for q in LEVELS]),
            ),
            "gain": (("initialiser", "map"), gains),
        },
        coords={
            "cloud": list(CLOUDS),
            "family": [f.name for f in FAMILIES],
            "initialiser": [f.name for f in INITIALISERS],
            "dim_out": dims,
            "level": list(LEVELS),
            "n_points": n_points,
        },
        attrs={"dim_in": spec.dim_in, "n_points_of_clouds": spec.n_points},
    )


def _embeddings(spec: Spec, lab: Lab) -> np.ndarray:
    """Token embeddings of a trained one-layer model, evenly spaced ids, padded with zeros to n.

    Padding is an isometry, so that one set of maps serves all clouds.
    """
    last = lab.input("text_models").notes["steps_kept"][-1]
    W_E = lab.load_arrays(f"layers-1-step-{last}", source="text_models")["W_E"][0]
    d_vocab, d_model = W_E.shape
    if spec.n_points > d_vocab or spec.dim_in < d_model:
        raise ValueError(
            f"n_points={spec.n_points} must be at most the d_vocab={d_vocab} of text_models, "
            f"and dim_in={spec.dim_in} at least its d_model={d_model}"
        )
    rows = W_E[np.linspace(0, d_vocab - 1, spec.n_points).astype(int)]
    return np.pad(rows, ((0, 0), (0, spec.dim_in - d_model)))


def _families(spec: Spec, key: jax.Array, tokens: np.ndarray) -> jax.Array:
    """Worst distortion [cloud, family, map, m] of every family on every cloud."""
    n, d = spec.n_points, spec.dim_in
    clouds = jnp.stack(
        [
            jax.random.normal(derive(key, "gaussian"), (n, d)),
            _clusters(derive(key, "clustered"), n, d),
            jnp.eye(d)[jax.random.permutation(derive(key, "one_hot"), d)[:n]],
            jnp.asarray(tokens),
        ]
    )
    keys = member_keys(derive(key, "maps"), spec.n_maps)
    # The maps' own axis is second: distances of a cloud are computed once.
    extremes = jax.jit(jax.vmap(jax.vmap(_extremes, (0, None)), (1, 0)))
    worst = []
    for family in FAMILIES:
        # Clouds are arguments throughout: XLA would fold a constant's products while compiling.
        draw = jax.jit(jax.vmap(partial(_draw, spec, family), (0, None)))
        worst.append(extremes(draw(keys, clouds), clouds))
    return jnp.stack(worst, 1)


def _clusters(key: jax.Array, n_points: int, dim: int) -> jax.Array:
    """Eight clusters of N(0, 0.3² I) around centres of N(0, I), as many points in each."""
    centres = jax.random.normal(derive(key, "centres"), (8, dim))
    offsets = jax.random.normal(derive(key, "offsets"), (n_points, dim))
    return centres[jnp.arange(n_points) % 8] + 0.3 * offsets


def _draw(spec: Spec, family: MapFamily, key: jax.Array, cloud: jax.Array) -> jax.Array:
    return nested_features(key, cloud, family, spec.max_dim)


def _extremes(features: jax.Array, cloud: jax.Array) -> jax.Array:
    found = extremes_by_dimension(features, cloud, step=STEP)
    # A pair that the Gram form cannot resolve would be left out: make it visible instead.
    return jnp.where(found.n_near == 0, jnp.maximum(found.high, -found.low), jnp.nan)


def _gains(spec: Spec, key: jax.Array) -> jax.Array:
    """Mean gain over all pairs, [initialiser, map], of kernels as they are initialised."""
    cloud = jax.random.normal(derive(key, "cloud"), (spec.n_points, spec.dim_in))
    # The squared distances of all pairs sum to N times the squares of the centred points.
    centred = cloud - cloud.mean(0)[None, :]
    keys = member_keys(derive(key, "maps"), spec.n_maps)

    kernels = [MapSpec(family, spec.dim_in, spec.max_dim) for family in INITIALISERS]

    @jax.jit
    def all_gains(keys: jax.Array, centred: jax.Array) -> jax.Array:
        images = [jax.vmap(lambda k, m=m: project(k, centred, m))(keys) for m in kernels]
        return (jnp.stack(images) ** 2).sum((2, 3)) / (centred**2).sum()

    return all_gains(keys, centred)


def _points(spec: Spec, key: jax.Array, n_points: list[int]) -> jax.Array:
    """Worst distortion [N, map, m] of Gaussian maps."""
    draw = partial(_draw, spec, MapFamily.gaussian)

    @jax.jit
    def every_map(keys: jax.Array, cloud: jax.Array) -> jax.Array:
        return jax.lax.map(lambda k: _extremes(draw(k, cloud), cloud), keys)

    worst = []
    for n in n_points:
        cloud = jax.random.normal(derive(key, f"cloud {n}"), (n, spec.dim_in))
        worst.append(every_map(member_keys(derive(key, f"maps {n}"), spec.n_maps), cloud))
    return jnp.stack(worst)


def _bands(spec: Spec, key: jax.Array, dims: np.ndarray) -> np.ndarray:
    """Quantiles [level, m] over all pairs and maps together."""
    cloud = jax.random.normal(derive(key, "cloud"), (spec.n_points, spec.dim_in))
    keys = member_keys(derive(key, "maps"), spec.n_maps)
    none = jnp.zeros((0, 2))

    @jax.jit
    def passes(keys: jax.Array, cloud: jax.Array) -> Any:
        draw = jax.vmap(partial(_draw, spec, MapFamily.gaussian), (0, None))
        features = draw(keys, cloud)

        def one_dim(m: jax.Array) -> Any:
            # Columns past m are zero: one shape, hence one compilation, serves every m.
            used = (jnp.arange(spec.max_dim) < m)[None, None, :] / jnp.sqrt(m)
            every_map = jax.vmap(
                lambda y: distortion(cloud, y, none, LIMITS, n_bins=2250, near_capacity=0)
            )
            return every_map(features * used)

        return jax.lax.map(one_dim, jnp.asarray(dims))

    found = summarise(passes(keys, cloud), require_distinct=True)
    pooled = found._replace(
        n_used=found.n_used.sum(1),
        histogram=found.histogram.sum(1),
        low=found.low.min(1),
        high=found.high.max(1),
    )
    return np.stack([quantile(pooled, level) for level in LEVELS]).mean(1)
