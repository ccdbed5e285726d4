"""What the identities and nulls of circuits are held against, and how they are measured."""

import numpy as np
import xarray as xr

from circuitax.records.claims import Claim, Expected, at_least, at_most, near
from circuitax.records.estimate import Estimate, exact, mean_estimate

FRAMEWORK = "framework paper, path expansion"
ROUNDING = "float64 rounding; a wrong term is of order 1"
EVERY = "every model, 0 to 4 layers, bare or with frozen norms"
RANDOM = "all seeds and all heads or pairs of each; seeds are the replicates"


def _identity(id: str, statement: str, tolerance: float, source: str = FRAMEWORK) -> Claim:
    return Claim(id, source, f"{statement}: greatest error, relative", id, at_most(tolerance),
                 ROUNDING, "identity", EVERY)  # fmt: skip


def _random(id: str, source: str, statement: str, expected: Expected, why: str) -> Claim:
    return Claim(id, source, statement, id, expected, why, "number", RANDOM, 8)


CLAIMS = (
    _identity("identity-paths", "All path terms sum to the logits, patterns frozen", 1e-12),
    Claim("identity-paths-float32", FRAMEWORK, "The same in float32, two layers: greatest error, "
          "relative", "identity-paths-float32", at_most(1e-5), "float32 rounding", "identity"),
    _identity("identity-scores", "Terms by source of query and of key sum to the scores of a "
              "second-layer head, and give its pattern", 1e-12,
              "framework paper, QK circuit of the second layer"),
    Claim("identity-score-count", "framework paper, QK circuit of the second layer", "With twelve "
          "heads a layer there are (1 + 12)² = 169 of them, 14² = 196 with positions: difference "
          "of counts", "identity-score-count", at_most(0), "exact", "identity"),
    _identity("identity-orders", "Paths of order up to the depth are the full forward pass", 1e-12),
    _identity("identity-direct", "The logits of order 0 are rows of W_E W_U", 1e-12),
    _identity("identity-runs", "The paper's repeated runs, each adding what heads wrote in the run "
              "before, give the orders of one polynomial pass", 1e-12,
              "framework paper, term importance analysis"),
    _identity("identity-kronecker", "The Kronecker matrix of a head, applied to the flattened "
              "stream, is A x W", 1e-12, "framework paper, attention heads as tensor products"),
    _identity("identity-ablation", "Pattern-preserving ablation of a head is the logits less all "
              "paths through it", 1e-12, "induction-heads paper, pattern-preserving ablation"),
    _identity("identity-eigenvalues", "Eigenvalues of the k × k core are the non-zero ones of the "
              "V × V circuit", 1e-10, "framework paper, low-rank matrices"),
    _identity("identity-trace", "The trace of the factored circuit, and the sum of its diagonal, "
              "are those of the dense one", 1e-10, "framework paper, low-rank matrices"),
    _identity("identity-norm", "The Frobenius norm of the factored circuit is that of the dense "
              "one", 1e-10, "framework paper, low-rank matrices"),
    Claim("norm-not-cyclic", "framework paper, erratum of the composition diagram (E15)",
          "A cyclic shift changes the Frobenius norm: least relative change over all heads",
          "norm-not-cyclic", at_least(1e-3), "far above rounding; it holds in general",
          "identity", "every model with layers"),
    _random("random-composition", "reference page 1.6; framework paper, composition scores (E16)",
            "Before training composition scores centre on 1/√d_model: mean over pairs times "
            "√d_model, the kind of Q, K, V farthest from 1", near(1, 0.02),
            "within 2 % at d_model = 768"),
    _random("random-composition-spread", "reference page 1.2 (derived)", "Their standard deviation "
            "over pairs is 1/(√2 d_head √d_model): ratio, the kind farthest from 1", near(1, 0.25),
            "large d_head; 144 pairs a seed estimate a deviation to 6 %"),
    _random("random-copying", "reference page 1.6; framework paper, OV eigenvalues",
            "Before training the OV eigenvalue score is 0: mean over heads", near(0, 0.03),
            "0 ± 0.03 at d_head = 64"),
    _random("random-copying-spread", "reference page 1.3 (F9, derived)", "Standard deviation of "
            "the score over heads: 0.1 is beyond three", at_most(0.033), "0.023 for Ginibre"),
)  # fmt: skip
SPECTRA = {
    "identity-eigenvalues": "eigenvalues",
    "identity-trace": "trace",
    "identity-norm": "norm",
}


def estimates(
    data: xr.Dataset, score_heads: int, d_head: int
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Greatest errors, and moments of the random models; identities need float64."""
    errors = {f"identity-{n}": data.path_error.sel(check=n).max() for n in data.check.values}
    errors["identity-paths-float32"] = data.path_error_float32.max()
    errors["identity-scores"] = data.score_error.max()
    spectral = data.spectral_error
    errors |= {claim: spectral.sel(check_spectral=n).max() for claim, n in SPECTRA.items()}
    errors["norm-not-cyclic"] = spectral.sel(check_spectral="cycled").min()
    expected = xr.DataArray([(1 + score_heads) ** 2, (2 + score_heads) ** 2], dims="positions")
    errors["identity-score-count"] = abs(data.score_count.drop_vars("positions") - expected).max()
    measured = {name: exact(value, data.sizes["member"]) for name, value in errors.items()}
    measured |= _moments(data, d_head)
    if bool(data.float64):
        return measured, {}
    unmet = {
        claim.id: "needs dtype=float64, which is the experiment's own default"
        for claim in CLAIMS
        if claim.kind == "identity" and claim.id != "identity-paths-float32"
    }
    return measured, unmet


def _moments(data: xr.Dataset, d_head: int) -> dict[str, Estimate]:
    pairs, root = ["writer", "reader"], np.sqrt(float(data.random_d_model))
    centre = data.random_composition.mean(pairs) * root
    spread = data.random_composition.std(pairs, ddof=1) * root * np.sqrt(2) * d_head
    return {
        "random-composition": mean_estimate(_farthest(centre)),
        "random-composition-spread": mean_estimate(_farthest(spread)),
        "random-copying": mean_estimate(data.random_copying.mean("head")),
        "random-copying-spread": mean_estimate(data.random_copying.std("head", ddof=1)),
    }


def _farthest(ratio: xr.DataArray) -> np.ndarray:
    """Of the kinds, the one whose mean over seeds is farthest from 1."""
    kind = abs(ratio.mean("member") - 1).argmax("kind")
    return ratio.isel(kind=kind).values
