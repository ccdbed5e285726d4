"""Superposition in real models: tokens and neurons as directions, beside random directions.

A transformer has more tokens and neurons than dimensions. Their directions are compared with as
many random ones: how large overlaps are, how heavy their tail is, and how many dimensions each
feature has. All is measured twice: on the rows as they are, and with their mean taken off. The same
is measured of features, which sparse autoencoders find in the stream halfway through each model.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Key

from circuitax.data.files import ABSENT, fingerprint
from circuitax.kernel.keys import derive, member_keys
from circuitax.kit.checks import require_at_least, require_equal
from circuitax.kit.real_model import RANDOM
from circuitax.lab.lab import Lab
from circuitax.models.sources import HOW, has_smollm2, smollm2_file
from circuitax.projection.coherence import coherence, mean_overlaps, overlap_shares
from circuitax.projection.laws import overlap_tail
from circuitax.projection.packings import welch_bound
from circuitax.records.record import Record
from circuitax.superposition.features import dimensionality_of_rows
from experiments.directions.text_superposition.features import FeatureSpec, features
from experiments.directions.text_superposition.levels import FEATURE, LEVELS, MULTIPLES, TAIL
from experiments.directions.text_superposition.stream_vectors import own_text
from experiments.directions.text_superposition.weights import (
    OURS,
    REAL,
    SMOLLM2,
    Rows,
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
        most: Rows whose pairs are counted, a random choice where there are more; at least 2. Means
            and dimensionalities are always of all rows.
        draws: Random sets of each shape, and random choices of rows; at least 2.
        features: How features of our text model are found.
        smollm2_features: How those of SmolLM2 are found, by as many autoencoders.
    """

    weights: str = REAL
    most: int = 4096
    draws: int = 8
    features: FeatureSpec = field(default_factory=FeatureSpec)
    smollm2_features: FeatureSpec = field(default_factory=FeatureSpec)

    def __post_init__(self) -> None:
        if self.weights not in (REAL, RANDOM):
            raise ValueError(f"weights={self.weights!r} must be {REAL} or {RANDOM}")
        require_at_least(self, 2, "most", "draws")
        require_equal(self, "features.seeds", "smollm2_features.seeds", why="they share an axis")

    def outside_inputs(self) -> dict[str, str]:
        """Checksums of the weights and the text, so that others make another run."""
        if self.weights == RANDOM:
            return {}
        theirs = fingerprint(smollm2_file()) if has_smollm2() else ABSENT
        found = {OURS: fingerprint(own_weights()), SMOLLM2: theirs}
        return found | own_text().outside_inputs()


class Whole(NamedTuple):
    """Measurements on all rows of a set.

    Attributes:
        dimensionality: Quantiles of the dimensionality D_i.
    """

    mean: Float[Array, ""]
    mean_square: Float[Array, ""]
    dimensionality: Float[Array, " level"]
    dimensionality_sum: Float[Array, ""]


class Pairs(NamedTuple):
    """Measurements on pairs of some rows."""

    largest: Float[Array, ""]
    above: Float[Array, " threshold"]


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Measure every set of directions and random ones of its shape."""
    models = open_models(spec.weights, derive(key, "model"))
    missing = HOW if spec.weights == REAL and SMOLLM2 not in models else ""
    notes: dict[str, Any] = {
        "weights": spec.weights,
        "missing": missing,
        "models": list(models),
    }
    if missing:
        lab.log(f"no weights of SmolLM2: {missing}")
    sets = [rows for name, model in models.items() for rows in directions(name, model)]
    shapes = list(dict.fromkeys((len(x.rows), x.dim) for x in sets))
    nulls = [
        _random(derive(key, f"random {n} {d}"), n, d, spec) for n, d in lab.track(shapes, "random")
    ]
    keys = derive(key, "rows")
    found = [_both(x, keys, spec) for x in lab.track(sets, "sets")]
    null = [nulls[shapes.index((len(x.rows), x.dim))] for x in sets]
    sizes = np.array([(len(x.rows), x.dim) for x in sets])
    tail = int(np.argmin(np.abs(MULTIPLES - TAIL)))
    arrays: dict[str, Any] = {
        "n_rows": ("set", sizes[:, 0]),
        "dim": ("set", sizes[:, 1]),
        "welch": ("set", welch_bound(sizes[:, 0], sizes[:, 1])),
        "tail": (
            ("set", "centred", "draw"),
            np.stack([f["above"][..., tail] for f in found]),
        ),
        "null_tail": (("set", "draw"), np.stack([f["above"][..., tail] for f in null])),
        "null_dimensionality": (
            ("set", "level"),
            _stack(null, "dimensionality").mean(axis=1),
        ),
    }
    axes = {"dimensionality": ("level",), "largest": ("draw",)}
    for name in found[0].keys() - {"above"}:
        arrays[name] = (("set", "centred", *axes.get(name, ())), _stack(found, name))
    for name in null[0].keys() - {"above", "dimensionality"}:
        arrays[f"null_{name}"] = (("set", "draw"), _stack(null, name))
    groups = [f"{x.model} {x.kind}" for x in sets]
    above, law = (
        _stack(found, "above").mean(axis=2),
        np.stack([_law(x.dim) for x in sets]),
    )
    chosen = [np.array(groups) == group for group in dict.fromkeys(groups)]
    arrays |= {
        "above": (
            ("group", "centred", "multiple"),
            np.stack([above[i].mean(axis=0) for i in chosen]),
        ),
        "law": (("group", "multiple"), np.stack([law[i].mean(axis=0) for i in chosen])),
    }
    coords = {
        "set": [f"{g} {x.layer}" if x.layer >= 0 else g for g, x in zip(groups, sets, strict=True)],
        "model": ("set", [x.model for x in sets]),
        "kind": ("set", [x.kind for x in sets]),
        "layer": ("set", [x.layer for x in sets]),
        "group": list(dict.fromkeys(groups)),
        "centred": [False, True],
        "level": list(LEVELS),
        "multiple": MULTIPLES,
        "draw": np.arange(spec.draws),
        "seed": np.arange(spec.features.seeds),
    }
    notes |= {
        "read": "what neurons read has the gain of the norm before it folded in",
        "tail": f"share of pairs with |cos| above {TAIL}/√d",
        "pairs": f"of {spec.most} rows, another choice in each draw, where a set has more",
        "ours": "one member of the full transformer of text_models, after training, half precision",
    }
    # Each model's part has a key of its own: one that is absent changes no number of the other.
    specs = {OURS: spec.features, SMOLLM2: spec.smollm2_features}
    for name, model in models.items():
        stem = FEATURE[name]
        found_features, about = features(
            lab, specs[name], name, model, derive(key, f"{stem}s"), spec.weights == RANDOM
        )
        for what, (axes, values) in found_features.items():
            arrays[f"{stem}_{what}"] = (_own_chunks(axes, name), values)
        notes[f"{stem}s"] = about
    return Record(data=xr.Dataset(arrays, coords), notes=notes)


def _own_chunks(axes: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Axes with chunks of a single model, as models train for different times."""
    return axes if name == OURS else tuple(f"{name}_{a}" if a == "chunk" else a for a in axes)


def _stack(found: list[dict[str, np.ndarray]], name: str) -> np.ndarray:
    return np.stack([one[name] for one in found])


def _law(dim: int) -> np.ndarray:
    """Probability that two random directions overlap by more than each threshold."""
    return overlap_tail(dim, np.minimum(MULTIPLES / np.sqrt(dim), 1))


def _both(rows: Rows, key: Key[Array, ""], spec: Spec) -> dict[str, np.ndarray]:
    """A set as it is, and centred; pairs of several choices of rows if it has too many."""
    each = []
    for x in (rows.rows, rows.rows - rows.rows.mean(axis=0, keepdims=True)):
        whole, n = _whole(x), len(x)
        if n <= spec.most:
            pairs = jax.tree.map(lambda a: jnp.stack([a] * spec.draws), _pairs(x, rows.dim))
        else:
            choices = [
                jax.random.choice(k, n, (spec.most,), False) for k in member_keys(key, spec.draws)
            ]
            some = [_pairs(x[chosen], rows.dim) for chosen in choices]
            pairs = jax.tree.map(lambda *leaves: jnp.stack(leaves), *some)
        each.append(whole._asdict() | pairs._asdict())
    return {name: np.stack([np.asarray(one[name]) for one in each]) for name in each[0]}


def _random(key: Key[Array, ""], n: int, dim: int, spec: Spec) -> dict[str, np.ndarray]:
    """The same of Gaussian directions, draw by draw."""
    found = []
    for k in member_keys(key, spec.draws):
        x = jax.random.normal(k, (n, dim), float)
        found.append(_whole(x)._asdict() | _pairs(x[: spec.most], dim)._asdict())
    return {name: np.stack([np.asarray(one[name]) for one in found]) for name in found[0]}


@jax.jit
def _whole(x: Float[Array, "n dim"]) -> Whole:
    overlaps, dims = mean_overlaps(x), dimensionality_of_rows(x)
    return Whole(*overlaps, jnp.quantile(dims, jnp.asarray(LEVELS)), jnp.sum(dims))


def _pairs(x: Float[Array, "n dim"], dim: int) -> Pairs:
    thresholds = jnp.asarray(MULTIPLES / np.sqrt(dim), x.dtype)
    return Pairs(coherence(x).largest, overlap_shares(x, thresholds))
