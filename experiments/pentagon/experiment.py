"""S0 Example 26 and Figure 1: five features in two neurons, and what they cannot carry."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.kernel.toy import dense_forward, pentagon_weights
from circuitax.lab.lab import Lab
from circuitax.records.claims import Claim, near
from circuitax.records.estimate import exact
from circuitax.records.record import Record
from circuitax.superposition.response import feature_response, onsets, pair_table

BUDGET_SECONDS = 10
PAPER_SECONDS = 10
SOURCE = "S0 Example 26"


@dataclass(frozen=True)
class Spec:
    """What is looked at; the network itself is fixed by its definition.

    Attributes:
        max_magnitude: Greatest magnitude of a feature, positive.
        n_magnitudes: Points of the response curves, at least 2.
    """

    max_magnitude: float = 3.0
    n_magnitudes: int = 601

    def __post_init__(self) -> None:
        if not self.max_magnitude > 0:
            raise ValueError(f"max_magnitude={self.max_magnitude} must be positive")
        if self.n_magnitudes < 2:
            raise ValueError(f"n_magnitudes={self.n_magnitudes} must be at least 2")


def _number(id: str, statement: str, value: float, tol: float, why: str, source: str) -> Claim:
    return Claim(id=id, source=source, statement=statement, quantity=id, expected=near(value, tol),
                 why=why, kind="number", selection="closed form, nothing is selected")  # fmt: skip


FOUR_DIGITS = "derived beforehand to the digits given"
PRINTED = "two digits are printed"
CLAIMS = (
    Claim(
        id="pentagon-identity", source=SOURCE, kind="identity", quantity="pentagon-identity",
        statement="Every single feature of magnitude one is recovered: largest error over e_1..e_5",
        expected=near(0, 1e-12), why="rounding in float64", selection="nothing is selected",
    ),
    _number("pentagon-interference", "Greatest output pre-activation of another feature at e_k",
            -0.04, 5e-3, PRINTED, SOURCE),
    _number("pentagon-erasure", "Pre-activation of feature 1 for e_1 + e_3", -0.21, 5e-3,
            PRINTED, SOURCE),
    _number("pentagon-threshold", "A feature below magnitude 1/3 is erased", 1 / 3, 1e-9,
            "piecewise linear, exact", "erratum E6"),
    _number("pentagon-half", "A feature of magnitude 0.5 comes out as 0.25", 0.25, 1e-9,
            "piecewise linear, exact", "erratum E6"),
    _number("pentagon-clip-23", "Magnitude at which features 2 and 3 clip a hidden unit", 1.0136,
            5e-5, FOUR_DIGITS, "erratum E6"),
    _number("pentagon-clip-4", "Magnitude at which feature 4 clips a hidden unit", 1.0199, 5e-5,
            FOUR_DIGITS, "erratum E6"),
    _number("pentagon-invents-23", "Magnitude at which features 2 and 3 invent a neighbour", 1.05,
            5e-3, FOUR_DIGITS, "erratum E6"),
    _number("pentagon-invents-145", "Magnitude at which features 1, 4 and 5 invent a neighbour",
            1.08, 5e-3, FOUR_DIGITS, "erratum E6"),
    _number("pentagon-hallucination", "Output of the feature between a non-adjacent pair", 0.427,
            5e-4, FOUR_DIGITS, "erratum E7"),
    _number("pentagon-amplified", "Output of both features of the pairs (1,2), (1,5), (4,5)", 1.464,
            5e-4, FOUR_DIGITS, "erratum E7"),
    _number("pentagon-clipped-pairs", "Number of pairs that clip a hidden unit", 2, 0,
            "a count", "erratum E7"),
)  # fmt: skip


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Response of every feature over its magnitude, and of every pair at magnitude one."""
    weights = pentagon_weights()
    magnitudes = jnp.linspace(0, spec.max_magnitude, spec.n_magnitudes)
    response = jax.jit(feature_response)(weights, magnitudes)
    edges = onsets(weights, limit=spec.max_magnitude)
    pairs = pair_table(weights)
    basis = jnp.eye(5)
    single, pre = dense_forward(weights, basis)
    of_pair = dense_forward(weights, basis[0] + basis[2])[1][-1]
    half = feature_response(weights, jnp.array([0.5]))[:, 0]

    feature = np.arange(1, 6)
    data = xr.Dataset(
        {
            "response": (("feature", "magnitude", "output"), np.asarray(response)),
            "single": (("feature", "output"), np.asarray(single)),
            "embedding": (("feature", "neuron"), np.asarray(weights.layers[0].W)),
            "pair_output": (("pair", "output"), np.asarray(pairs.output)),
            "pair_clipped": (("pair", "neuron"), np.asarray(pairs.clipped)),
            "alive": ("feature", np.asarray(edges.alive)),
            "clips": ("feature", np.asarray(edges.clips)),
            "invents": ("feature", np.asarray(edges.invents)),
        },
        coords={
            "feature": feature,
            "output": feature,
            "neuron": [1, 2],
            "magnitude": np.asarray(magnitudes),
            "first": ("pair", np.asarray(pairs.first) + 1),
            "second": ("pair", np.asarray(pairs.second) + 1),
        },
    )
    others = np.asarray(pre[-1])[~np.eye(5, dtype=bool)]
    adjacent = [0, 3, 9]  # (1,2), (1,5), (4,5) in lexicographic order
    apart = (data.second - data.first).isin([2, 3]).values
    measured = {
        "pentagon-identity": np.abs(single - basis).max(),
        "pentagon-interference": others.max(),
        "pentagon-erasure": of_pair[0],
        "pentagon-threshold": _same(edges.alive),
        "pentagon-half": _same(jnp.diagonal(half)),
        "pentagon-clip-23": _same(edges.clips[1:3]),
        "pentagon-clip-4": edges.clips[3],
        "pentagon-invents-23": _same(edges.invents[1:3]),
        "pentagon-invents-145": _same(edges.invents[jnp.array([0, 3, 4])]),
        "pentagon-hallucination": _same(pairs.output[apart].max(axis=1)),
        "pentagon-amplified": _same(jnp.sort(pairs.output[jnp.array(adjacent)], axis=1)[:, 3:]),
        "pentagon-clipped-pairs": pairs.clipped.any(axis=1).sum(),
    }
    return Record(data=data, measured={name: exact(float(v)) for name, v in measured.items()})


def _same(values: jax.Array) -> float:
    """The common value of several numbers, or NaN (which no claim admits) if they differ."""
    numbers = np.asarray(values).ravel()
    return float(numbers[0]) if np.ptp(numbers) < 1e-9 else float("nan")
