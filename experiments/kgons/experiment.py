"""One-hot data: the exact potentials of regular k-gons, and which of them is lowest."""

from dataclasses import dataclass

import jax
import numpy as np
import xarray as xr

from circuitax.lab.lab import Lab
from circuitax.records.claims import Claim, at_most, near
from circuitax.records.estimate import exact
from circuitax.records.record import Record
from circuitax.superposition.kgons import kgon_potential, optimal_kgon

BUDGET_SECONDS = 10
PAPER_SECONDS = 5
SOURCE = "Chen et al. 2023 (arXiv 2310.06301), table of k-gons"
# k: norm l*, bias b*, L at c = k; and (k, c, dead features with positive bias): L.
TABLE = {4: (1.0, 0.0, 0.0), 5: (1.17046, -0.28230, 0.01583), 6: (1.32053, -0.61814, 0.04819)}
OTHERS = {
    (4, 5, 0): 0.06667,
    (4, 5, 1): 0.05667,
    (4, 6, 0): 0.11111,
    (4, 6, 1): 0.10417,
    (5, 6, 0): 0.06874,
}


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
        if not 6 <= self.max_k <= 12:
            raise ValueError(f"max_k={self.max_k} must be from 6 to 12")
        if self.max_features < self.max_k:
            raise ValueError(
                f"max_features={self.max_features} must be at least max_k={self.max_k}"
            )


def _claim(id: str, statement: str, tol: float, why: str) -> Claim:
    return Claim(id, SOURCE, statement, id, at_most(tol), why, "number", "closed form")


CLAIMS = (
    _claim("T9-norm", "Norms l* of the 4-, 5- and 6-gon (greatest difference)", 1e-3,
           "the acceptance table asks for 1e-3"),
    _claim("T9-bias", "Biases b* of the 4-, 5- and 6-gon (greatest difference)", 1e-3,
           "the acceptance table asks for 1e-3"),
    _claim("T9-potential", "L of the k-gon of its own k features, k = 4, 5, 6 (greatest "
           "difference)", 6e-6, "last digit given"),
    _claim("T9-dead", "L(4,5), L(4+,5), L(4,6), L(4+,6), L(5,6), with features left out (greatest "
           "difference)", 6e-6, "last digit given"),
    Claim("T9-hexagon", "reference page, one-hot limit", "With six features on one-hot data the "
          "hexagon is the lowest of the k-gons (its k)", "T9-hexagon", near(6, 0), "a count",
          "shape", "lowest potential, one dead feature with positive bias allowed"),
)  # fmt: skip


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Optimal norm and bias of every k-gon, and its potential with c features."""
    ks = list(range(4, spec.max_k + 1))
    cs = list(range(4, spec.max_features + 1))
    gons = {k: optimal_kgon(k) for k in lab.track(ks, "k-gons")}
    potential = np.full((2, len(ks), len(cs)), np.nan)
    for i, k in enumerate(ks):
        for j, c in enumerate(cs):
            for positive in range(min(2, c - k + 1)):
                potential[positive, i, j] = kgon_potential(gons[k].h, k, c, n_positive=positive)
    data = xr.Dataset(
        {
            "norm": ("k", [gons[k].norm for k in ks]),
            "bias": ("k", [gons[k].bias for k in ks]),
            "potential": (("positive", "k", "n_features"), potential),
        },
        coords={"k": ks, "n_features": cs, "positive": [0, 1]},
    )
    own = {k: gons[k].loss for k in TABLE}
    at_six = potential[:, :, cs.index(6)]
    measured = {
        "T9-norm": max(abs(gons[k].norm - row[0]) for k, row in TABLE.items()),
        "T9-bias": max(abs(gons[k].bias - row[1]) for k, row in TABLE.items()),
        "T9-potential": max(abs(own[k] - row[2]) for k, row in TABLE.items()),
        "T9-dead": max(
            abs(kgon_potential(gons[k].h, k, c, n_positive=n) - loss)
            for (k, c, n), loss in OTHERS.items()
        ),
        "T9-hexagon": ks[int(np.nanargmin(np.nanmin(at_six[:, :3], axis=0)))],
    }
    return Record(data=data, measured={name: exact(float(v)) for name, v in measured.items()})
