"""Reach of a proof of the phase diagram with three features in two dimensions.

At points of density and importance of the last feature, branch and bound over all Gram matrices of
three features in two dimensions raises a lower bound of the loss, level by level, and excludes
classes of solutions. What is published is the bound that a given amount of work reaches, and which
class is left. A sample of the bounds is held against losses in exact rationals.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.config.ranges import Positive
from circuitax.kernel.keys import derive
from circuitax.lab.lab import Lab
from circuitax.superposition.optimum.optimum import find_optimum
from circuitax.superposition.proofs.triple_audit import audit
from circuitax.superposition.proofs.triple_boxes import TripleClass
from circuitax.superposition.proofs.triple_proof import (
    DENSITIES,
    IMPORTANCES,
    LEVELS,
    TripleProof,
    prove_triple,
)

# By how much the couplings of a candidate are turned away from 0, where the closed form divides.
TURN = 1e-4


@dataclass(frozen=True)
class Spec:
    """Points, and how much work is spent on each.

    Attributes:
        density: p of all features.
        importance: r of the last feature; the other two have 1.
        levels: Halvings of the boxes; couplings and norms in turns.
        max_boxes: Boxes of a level beyond which the search is given up.
        restarts: Random starts of the optimiser, whose best loss is the upper bound.
    """

    density: Annotated[tuple[float, ...], DENSITIES] = (0.3,)
    importance: Annotated[tuple[float, ...], IMPORTANCES] = (0.5, 2.0)
    levels: Annotated[int, LEVELS] = 10
    max_boxes: Positive = 800_000
    restarts: Positive = 8


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Find a good solution at every point, and bound the loss of all others from below."""
    points = [(p, r) for p in spec.density for r in spec.importance]
    W, b, loss = lab.stage("optimiser", _optima, derive(key, "starts"), spec, points)
    found = {
        f"{p:g} {r:g}": lab.stage(f"point-{i}", _point, spec, p, r, W[i], b[i])
        for i, (p, r) in enumerate(lab.track(points, "points"))
    }
    axes = {"class_lower": ("level", "class"), "upper": ()}
    arrays: dict[str, Any] = {
        name: (
            ("point", *axes.get(name, ("level",))),
            np.stack([one[name] for one in found.values()]),
        )
        for name in next(iter(found.values()))
    }
    arrays |= {
        "density": ("point", [p for p, _ in points]),
        "importance": ("point", [r for _, r in points]),
        "optimiser_loss": ("point", loss),
        "optimiser_W": (("point", "hidden", "feature"), W),
    }
    coords = {
        "point": list(found),
        "level": np.arange(spec.levels),
        "class": [kind.name for kind in TripleClass],
    }
    notes = {
        "class_lower": "infinite where a class is excluded; NaN on levels that were not reached",
        "candidate": f"the optimiser's solution, two features turned by {TURN:g}",
        "max_boxes": spec.max_boxes,
    }
    return xr.Dataset(arrays, coords, notes)


def _optima(
    key: jax.Array, spec: Spec, points: list[tuple[float, float]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, biases and loss of the best of several searches, for all points."""
    density, importance = np.array(points).T
    with jax.enable_x64(True):
        found = find_optimum(
            key,
            jnp.asarray(np.repeat(density[:, None], 3, axis=1)),
            jnp.asarray(np.stack([np.ones_like(importance)] * 2 + [importance], axis=1)),
            n_hidden=2,
            n_restarts=spec.restarts,
            thorough=False,
        )
        W, b = found.weights
        return np.asarray(W), np.asarray(b), np.asarray(found.loss)


def _point(
    spec: Spec, density: float, importance: float, W: np.ndarray, b: np.ndarray
) -> dict[str, np.ndarray]:
    """The proof at one point; levels that were not reached are NaN.

    Raises:
        ValueError: If one of the sampled bounds is above an exact loss.
    """
    proof = prove_triple(
        density,
        importance,
        _turned(W)[None],
        b[None],
        levels=spec.levels,
        max_boxes=spec.max_boxes,
    )
    again = audit(density, proof.sample)
    if again.n_wrong:
        raise ValueError(
            f"density={density} and importance={importance}: {again.n_wrong} of "
            f"{again.n_repeated} bounds are wrong, so that nothing is proven"
        )
    return {"upper": np.array(proof.upper), **_by_level(proof, spec.levels)}


def _by_level(proof: TripleProof, levels: int) -> dict[str, np.ndarray]:
    rows = [
        {name: np.asarray(v, float) for name, v in one._asdict().items()} for one in proof.levels
    ]
    missing = {name: np.full_like(value, np.nan) for name, value in rows[0].items()}
    rows += [missing] * (levels - len(rows))
    return {name: np.stack([row[name] for row in rows]) for name in missing}


def _turned(W: np.ndarray) -> np.ndarray:
    """The features in directions that are nowhere exactly orthogonal."""
    angles = TURN * np.array([0.0, -1.0, 1.0])
    cosine, sine = np.cos(angles), np.sin(angles)
    return np.stack([cosine * W[0] - sine * W[1], sine * W[0] + cosine * W[1]])
