"""Superposition in real models: tokens and neurons as directions, beside random directions.

A transformer has more tokens and neurons than dimensions. Their overlaps, and the dimensions that
they use, are compared with those of as many random directions, on the rows as they are and with
their mean taken off.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Key

from circuitax.data.files import ABSENT, fingerprint
from circuitax.kernel.keys import derive, member_keys
from circuitax.kit.real_model import RANDOM
from circuitax.lab.lab import Lab
from circuitax.models.sources import HOW, has_smollm2, smollm2_file
from circuitax.projection.coherence import mean_overlaps
from circuitax.superposition.features import dimensionality_of_rows
from experiments.directions.text_superposition.models import (
    OURS,
    REAL,
    SMOLLM2,
    directions,
    open_models,
    own_weights,
)


@dataclass(frozen=True)
class Spec:
    """The trained weights, and the number of random ones for comparison.

    Attributes:
        weights: "real": our accepted text model and SmolLM2, whose package may be absent; or
            "random" for a small model.
        draws: Random sets of each shape.
    """

    weights: str = REAL
    draws: Annotated[int, "[2, inf)"] = 8

    def __post_init__(self) -> None:
        if self.weights not in (REAL, RANDOM):
            raise ValueError(f"weights={self.weights!r} must be {REAL} or {RANDOM}")

    def outside_inputs(self) -> dict[str, str]:
        """Checksums of the weights, so that others make another run."""
        if self.weights == RANDOM:
            return {}
        theirs = fingerprint(smollm2_file()) if has_smollm2() else ABSENT
        return {OURS: fingerprint(own_weights()), SMOLLM2: theirs}


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Measure every set of directions and random ones of its shape."""
    models = open_models(spec.weights, derive(key, "model"))
    missing = HOW if spec.weights == REAL and SMOLLM2 not in models else ""
    if missing:
        lab.log(f"no weights of SmolLM2: {missing}")
    sets = [rows for name, model in models.items() for rows in directions(name, model)]
    shapes = dict.fromkeys((len(x.rows), x.dim) for x in sets)
    random = {
        (n, d): _random(derive(key, f"random {n} {d}"), n, d, spec)
        for n, d in lab.track(list(shapes), "random")
    }
    null = [random[len(x.rows), x.dim] for x in sets]
    found = [_as_is_and_centred(x.rows) for x in lab.track(sets, "sets")]
    arrays: dict[str, Any] = {}
    for name in ("mean", "mean_square", "dimensionality_sum"):
        arrays[name] = (("set", "centred"), _stack(found, name))
    for name in ("mean_square", "dimensionality_sum"):
        arrays[f"null_{name}"] = (("set", "draw"), _stack(null, name))
    coords = {
        "model": ("set", [x.model for x in sets]),
        "kind": ("set", [x.kind for x in sets]),
        "layer": ("set", [x.layer for x in sets]),
        "centred": [False, True],
        "draw": np.arange(spec.draws),
    }
    notes: dict[str, Any] = {"weights": spec.weights, "missing": missing, "models": list(models)}
    return xr.Dataset(arrays, coords, notes)


def _stack(found: list[dict[str, np.ndarray]], name: str) -> np.ndarray:
    return np.stack([one[name] for one in found])


def _as_is_and_centred(rows: Float[Array, "n dim"]) -> dict[str, np.ndarray]:
    each = [_means(rows), _means(rows - rows.mean(axis=0, keepdims=True))]
    return {name: np.stack([np.asarray(one[name]) for one in each]) for name in each[0]}


def _random(key: Key[Array, ""], n: int, dim: int, spec: Spec) -> dict[str, np.ndarray]:
    """The same of Gaussian directions, draw by draw."""
    keys = member_keys(key, spec.draws)
    found = [_means(jax.random.normal(k, (n, dim), float)) for k in keys]
    return {name: np.stack([np.asarray(one[name]) for one in found]) for name in found[0]}


@jax.jit
def _means(x: Float[Array, "n dim"]) -> dict[str, Float[Array, ""]]:
    """Of all pairs of rows, and of all rows."""
    overlaps = mean_overlaps(x)
    used = jnp.sum(dimensionality_of_rows(x))
    return overlaps._asdict() | {"dimensionality_sum": used}
