"""Claims on the pentagon network, and their measurement from the record.

The claims come from Example 26 of S0 ("Some Structures in Transformer Architectures", the project's
source note) and from errata E6 and E7 of docs/errata.md: what S0 says of the network is exact at
magnitude one only (E6), and wrong for two of the ten pairs of features (E7).
"""

from dataclasses import replace

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, near
from circuitax.records.estimate import exact
from circuitax.records.measured import Measured
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper
from circuitax.records.record import Record

EXAMPLE = ClaimSource(
    "S0 Example 26",
    cites=(Paper.S0,),
    selection="closed form, nothing is selected",
    origin="published",
    link=papers.STRUCTURES,
)
EXACT = Null("theorem", "the network is piecewise linear, and given: its numbers are exact")
MAGNITUDES = replace(
    EXAMPLE, source="erratum E6", cites=(), origin="correction", link="", null=EXACT
)
PAIRS = replace(EXAMPLE, source="erratum E7", cites=(), origin="correction", link="", null=EXACT)
FOUR_DIGITS = "derived beforehand to the digits given"
PRINTED = "two digits are printed"
LINEAR = "piecewise linear, exact"

CLAIMS = (
    EXAMPLE.claim(
        "pentagon-identity",
        "Every single feature of magnitude one is recovered: largest error over e_1..e_5",
        near(0, 1e-12),
        "rounding in float64",
        kind="identity",
        selection="nothing is selected",
        origin="theorem",
    ),
    EXAMPLE.claim(
        "pentagon-interference",
        "Greatest output pre-activation of another feature at e_k",
        near(-0.04, 5e-3),
        PRINTED,
        printed="-0.04",
        null=Null("printed number", "features that do not interfere have 0", answer=0.0),
    ),
    EXAMPLE.claim(
        "pentagon-erasure",
        "Pre-activation of feature 1 for e_1 + e_3",
        near(-0.21, 5e-3),
        PRINTED,
        printed="-0.21",
        null=Null("printed number", "features that do not interfere have 1", answer=1.0),
    ),
    MAGNITUDES.claim(
        "pentagon-threshold", "A feature below magnitude 1/3 is erased", near(1 / 3, 1e-9), LINEAR
    ),
    MAGNITUDES.claim(
        "pentagon-half", "A feature of magnitude 0.5 comes out as 0.25", near(0.25, 1e-9), LINEAR
    ),
    MAGNITUDES.claim(
        "pentagon-clip-23",
        "Magnitude at which features 2 and 3 clip a hidden unit",
        near(1.0136, 5e-5),
        FOUR_DIGITS,
    ),
    MAGNITUDES.claim(
        "pentagon-clip-4",
        "Magnitude at which feature 4 clips a hidden unit",
        near(1.0199, 5e-5),
        FOUR_DIGITS,
    ),
    MAGNITUDES.claim(
        "pentagon-invents-23",
        "Magnitude at which features 2 and 3 invent a neighbour",
        near(1.05, 5e-3),
        FOUR_DIGITS,
    ),
    MAGNITUDES.claim(
        "pentagon-invents-145",
        "Magnitude at which features 1, 4 and 5 invent a neighbour",
        near(1.08, 5e-3),
        FOUR_DIGITS,
    ),
    PAIRS.claim(
        "pentagon-hallucination",
        "Output of the feature between a non-adjacent pair",
        near(0.427, 5e-4),
        FOUR_DIGITS,
    ),
    PAIRS.claim(
        "pentagon-amplified",
        "Output of both features of the pairs (1,2), (1,5), (4,5)",
        near(1.464, 5e-4),
        FOUR_DIGITS,
    ),
    PAIRS.claim(
        "pentagon-clipped-pairs", "Number of pairs that clip a hidden unit", near(2, 0), "a count"
    ),
)


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    data = record.data
    features = np.eye(5)
    apart = data.pair_output[(data.second - data["first"]).isin([2, 3]).values]
    adjacent = np.concatenate([_pair(data, *pair).pair_output for pair in ((1, 2), (1, 5), (4, 5))])
    measured = {
        "pentagon-identity": np.abs(data.single.values - features).max(),
        "pentagon-interference": data["single_pre_activation"].values[features == 0].max(),
        "pentagon-erasure": _pair(data, 1, 3)["pair_pre_activation"].values[0, 0],
        "pentagon-threshold": _common(data.alive),
        "pentagon-half": _common(np.diagonal(data["half"])),
        "pentagon-clip-23": _common(data.clips.sel(feature=[2, 3])),
        "pentagon-clip-4": data.clips.sel(feature=4),
        "pentagon-invents-23": _common(data.invents.sel(feature=[2, 3])),
        "pentagon-invents-145": _common(data.invents.sel(feature=[1, 4, 5])),
        "pentagon-hallucination": _common(apart.max("output")),
        "pentagon-amplified": _common(np.sort(adjacent, axis=1)[:, 3:]),
        "pentagon-clipped-pairs": data.pair_clipped.any("neuron").sum(),
    }
    return Measured({name: exact(value) for name, value in measured.items()}, {})


def _pair(data: xr.Dataset, first: int, second: int) -> xr.Dataset:
    """The part of the data that belongs to one pair of features."""
    return data.isel(pair=((data["first"] == first) & (data.second == second)).values)


def _common(values: ArrayLike) -> float:
    """The common value of several numbers, or NaN (which no claim admits) if they differ."""
    numbers = np.asarray(values).ravel()
    return float(numbers[0]) if np.ptp(numbers) < 1e-9 else float("nan")
