"""One-hot data: the exact potentials of regular k-gons, and which of them is lowest.

With one feature on at a time, every regular polygon of k features, the others left at zero, is a
critical point of the loss. Its loss L, the potential, follows from the polygon's best norm and bias
(Chen et al. 2023, arXiv 2310.06301).
"""

from dataclasses import dataclass

import jax
import numpy as np
import xarray as xr

from circuitax.kit.checks import require_at_least, require_in
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from circuitax.superposition.kgons import kgon_potential, optimal_kgon

BUDGET_SECONDS = 10
PAPER_SECONDS = 5


@dataclass(frozen=True)
class Spec:
    """Which polygons, with how many features.

    Attributes:
        max_k: Greatest number of vertices, from 6 to 12.
        max_features: Greatest number of features c, at least ``max_k``.
    """

    max_k: int = 8
    max_features: int = 12

    def __post_init__(self) -> None:
        require_in(self, "[6, 12]", "max_k")
        require_at_least(self, "max_k", "max_features")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Optimal norm and bias of every k-gon, and its potential with c features."""
    ks = list(range(4, spec.max_k + 1))
    cs = list(range(4, spec.max_features + 1))
    gons = [optimal_kgon(k) for k in lab.track(ks, "k-gons")]
    potential = np.full((2, len(ks), len(cs)), np.nan)
    for i, k in enumerate(ks):
        for j, c in enumerate(cs):
            for positive in range(min(2, c - k + 1)):
                potential[positive, i, j] = kgon_potential(gons[i].h, k, c, n_positive=positive)
    data = xr.Dataset(
        {
            "norm": ("k", [gon.norm for gon in gons]),
            "bias": ("k", [gon.bias for gon in gons]),
            "potential": (("positive", "k", "n_features"), potential),
        },
        coords={"k": ks, "n_features": cs, "positive": [0, 1]},
    )
    return Record(data=data)
