"""Theorem 27 and Corollary 28 of S0, as printed, as proved and as corrected (E8, E9, E10).

S0 is "Some Structures in Transformer Architectures", the project's source note; E8, E9 and E10 are
rows of docs/errata.md.
"""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.config.ranges import Positive
from circuitax.kernel.keys import derive, member_keys
from circuitax.lab.lab import Lab
from circuitax.projection.laws import proof_constant, ratio_cdf, statement_constant
from circuitax.projection.maps import MapFamily, MapSpec, pair_ratios
from circuitax.projection.theorem import (
    corollary_28,
    failing_maps,
    inner_product_bound,
    proof_bounds,
    proof_map_products,
    statement_bounds,
    unequal_norms,
    without_origin,
)

PAIR_IN, PAIR_DIM, PAIR_EPSILON = 64, 200, 0.3
GRID = np.linspace(0.4, 2.0, 641)


@dataclass(frozen=True)
class Spec:
    """The cloud on which the theorem is tried, and how often.

    Attributes:
        dim_in: n.
        n_points: N of the cloud; its norms run from 1 to 4.
        epsilon: ε of the theorem.
        n_maps: Maps of each kind.
        n_pair_maps: Maps of one pair, for rates.
    """

    dim_in: Annotated[int, "[2, inf)"] = 512
    n_points: Annotated[int, "[3, inf)"] = 100
    epsilon: Annotated[float, "(0, 1)"] = 0.5
    n_maps: Positive = 100
    n_pair_maps: Positive = 5000


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Both maps against both bounds over a cloud and for one pair; the corollary; the examples."""
    eps = spec.epsilon
    scale = np.log(spec.n_points) / eps**2
    dims = [int(np.ceil(c(eps) * scale)) for c in (statement_constant, proof_constant)]
    cloud = jax.random.normal(derive(key, "cloud"), (spec.n_points, spec.dim_in))
    cloud = cloud * jnp.linspace(1, 4, spec.n_points)[:, None]
    signs = MapSpec(MapFamily.rademacher, spec.dim_in, dims[0])
    proof = MapSpec(MapFamily.proof, spec.dim_in, dims[1], eps)
    keys = member_keys(derive(key, "maps"), spec.n_maps)
    bounds = (statement_bounds(eps), proof_bounds(eps))
    fails = [
        lab.stage(name, failing_maps, member_keys(derive(key, name), spec.n_maps), cloud, s, bounds)
        for name, s in (("signs", signs), ("proof", proof))
    ]
    corollary = lab.stage("corollary", corollary_28, keys, cloud, signs)
    pair = lab.stage("pair", _one_pair, spec, derive(key, "pair"))
    examples = _examples()
    return xr.Dataset(
        {
            "fails": (("kind", "map", "bound"), np.stack(fails)),
            "dim_out": ("kind", dims),
            "ratio": (("kind", "pair_map"), np.stack([pair["signs"], pair["proof"]])),
            "kept_epsilon": ("map", corollary.epsilon),
            "inner_beyond": ("map", corollary.inner),
            "cosine_beyond": ("map", corollary.cosine),
            "inner_share": ("map", corollary.inner_share),
            "cosine_share": ("map", corollary.cosine_share),
            "moved": ("example", list(examples.values())),
            "law": ("ratio_grid", np.gradient(ratio_cdf(GRID, PAIR_DIM), GRID)),
        },
        coords={
            "kind": ["signs", "proof"],
            "bound": ["statement", "proof"],
            "example": list(examples),
            "ratio_grid": GRID,
        },
        attrs={
            "epsilon": eps,
            "pair_epsilon": PAIR_EPSILON,
            "pair_dim": PAIR_DIM,
            "n_points": spec.n_points,
        },
    )


def _one_pair(spec: Spec, key: jax.Array) -> dict[str, np.ndarray]:
    """Ratios of squared distances of one pair, under many maps of each kind."""
    z = jax.random.normal(derive(key, "difference"), (PAIR_IN,))
    rules = {
        "signs": MapSpec(MapFamily.rademacher, PAIR_IN, PAIR_DIM),
        "proof": MapSpec(MapFamily.proof, PAIR_IN, PAIR_DIM, PAIR_EPSILON),
    }

    def ratios(name: str) -> np.ndarray:
        keys = member_keys(derive(key, name), spec.n_pair_maps)
        return np.asarray(jax.jit(lambda k: pair_ratios(k, z, rules[name]))(keys), np.float64)

    return {name: ratios(name) for name in rules}


def _examples() -> dict[str, float]:
    """Changes of inner products by explicit maps, in units of the printed 3ε, and of cosines."""
    moved = proof_map_products(0.1)
    rescaled = moved._replace(matrix=moved.matrix / np.sqrt(1.1))
    return {
        "E8-inner": moved.inner_error() / inner_product_bound(0.1),
        "E8-rescaled": rescaled.inner_error() / inner_product_bound(0.1),
        "E10-without-zero": without_origin().cosine_error(),
        "E10-unequal-norms": unequal_norms(15.0, 0.1).cosine_error(),
    }
