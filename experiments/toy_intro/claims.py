"""What the papers say of five features in two dimensions, and how each statement is measured."""

import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.records.claims import Claim, at_least, between, near
from circuitax.records.estimate import Estimate, exact, mean_estimate, proportion_estimate
from circuitax.superposition.crossover import crossing
from circuitax.superposition.geometry import gaps

INTRO = "Toy Models of Superposition, introduction (n = 5, m = 2, I = 0.9^i)"
GEOMETRY = "Toy Models of Superposition, geometry (n = 5, m = 2, uniform I)"
REFERENCE = "exact expected loss of the reference page, 16 to 40 restarts"
REACHED = "seeds within 5 % of the exact optimum"
NOISE = "Adam's noise at rate 1e-3 and the official weight decay move norms by about a per cent"
DIGITS = "last digit given"


def _optimum(id: str, statement: str, value: float, tol: float, source: str = INTRO) -> Claim:
    return Claim(id, source, statement, id, near(value, tol), DIGITS, "number",
                 "lowest of all restarts")  # fmt: skip


# Mean-convention optimal losses, I = 0.9^i (reference page, section 3).
LOSSES = {1.0: 0.03658, 0.5: 0.03975, 0.2: 0.01197, 0.1: 0.00428, 0.05: 0.00145}
# Densities of the published figure; 0.514 and 0.0973 have neighbours that other claims name.
PUBLISHED = 20 ** -np.linspace(0, 1, 10)
CLAIMS = (
    *(
        _optimum(f"T-loss-p{p:g}", f"Optimal mean loss at p = {p:g} is {value}", value, 6e-6)
        for p, value in LOSSES.items()
    ),
    Claim("T1-norms", INTRO, "p = 1: features 0 and 1 have norm about 1", "T1-norms",
          near(1, 0.03), NOISE, "number", REACHED, 5),
    Claim("T1-angle", INTRO, "p = 1: features 0 and 1 are at 90 degrees", "T1-angle",
          near(90, 2), NOISE, "number", REACHED, 5),
    Claim("T1-others", INTRO, "p = 1: the other three norms are about 0 (greatest of three)",
          "T1-others", between(0, 0.1), NOISE, "number", REACHED, 5),
    Claim("T1-bias", INTRO, "p = 1: the bias of an ignored feature is its mean, 0.5", "T1-bias",
          near(0.5, 0.02), NOISE, "number", REACHED, 5),
    Claim("T2-digons", INTRO, "p = 0.2: the best network is two digons (antipodal pairs)",
          "T2-digons", near(2, 0), "a count", "shape", "lowest exact loss of the seeds", 10),
    Claim("T2-dropped", INTRO, "p = 0.2: the best network drops one feature (least norm)",
          "T2-dropped", between(0, 0.1), NOISE, "number", "lowest exact loss of the seeds", 10),
    Claim("T3-represented-p0.1", INTRO, "p = 0.1: the best network represents all five features",
          "T3-represented-p0.1", near(5, 0), "a count", "shape",
          "lowest exact loss of the seeds", 10),
    Claim("T3-gaps", INTRO, "p = 0.05: neighbouring features are 72 degrees apart (greatest miss)",
          "T3-gaps", between(0, 3), "the optimum itself has gaps of 70.4 to 73.4", "number",
          "lowest exact loss of the seeds", 10),
    Claim("T3-norms", INTRO, "p = 0.05: pentagon norms are 1.12 to 1.14, not 1", "T3-norms",
          between(1.10, 1.15), NOISE, "number", REACHED, 5),
    Claim("T3-bias", INTRO, "p = 0.05: pentagon biases are about -0.24", "T3-bias",
          near(-0.24, 0.02), NOISE, "number", REACHED, 5),
    Claim("T3-optimum-gaps-low", INTRO, "p = 0.05: least gap of the exact optimum is 70.4 degrees",
          "T3-optimum-gaps-low", near(70.4, 0.1), DIGITS, "number", "lowest of all restarts"),
    Claim("T3-optimum-gaps-high", INTRO, "p = 0.05: greatest gap of the optimum is 73.4 degrees",
          "T3-optimum-gaps-high", near(73.4, 0.1), DIGITS, "number", "lowest of all restarts"),
    _optimum("E18-pentagon-norm", "Uniform I, p = 0.05: norm of the optimal pentagon", 1.135, 6e-4,
             GEOMETRY),
    Claim("E18-pentagon-bias", GEOMETRY, "Uniform I, p = 0.05: bias of the optimal pentagon",
          "E18-pentagon-bias", near(-0.247, 6e-4), DIGITS, "number", "lowest of all restarts",
          explanation="The loss at the reference's norm and bias is 4e-8 above ours, by series and "
          "by enumeration alike; the optimum is at -0.24633."),
    Claim("E18-norm-rule", "Toy Models of Superposition, geometry: norm = 1/(1 - b)",
          "Printed rule for the pentagon's norm: 1/(1 - b) over the exact norm", "E18-norm-rule",
          near(1, 0.01), "the rule is printed as exact", "number", "lowest of all restarts",
          explanation="With b = -0.247 the rule gives 0.80, the optimum has 1.135 (erratum E18); "
          "norm squared is close to 1 - b."),
    _optimum("crossover-0.9", "I = 0.9^i: two digons give way to the pentagon at p = 0.160", 0.160,
             1e-3),
    Claim("crossover-uniform", GEOMETRY, "Uniform I: the crossover lies between p = 0.2 and 0.25",
          "crossover-uniform", between(0.2, 0.25), "loss ratios 0.959 and 1.035 at its ends",
          "number", "lowest of all starts of either kind"),
    Claim("single-seed-misses", INTRO,
          "About 7 of the 30 published single-seed panels are local minima (share of seeds)",
          "single-seed-misses", between(0.08, 0.45), "Wilson interval of 7/30, rounded outwards",
          "number", "all seeds at the ten published densities, I = 0.9^i", 10),
    Claim("best-reaches", INTRO, "The best of ten seeds reaches the optimum at every density",
          "best-reaches", at_least(0.7), "Wilson interval over densities", "shape",
          "lowest exact loss of the seeds", 10),
)  # fmt: skip


def measure(
    data: xr.Dataset, tolerance: float, standard: bool
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """The measured value of every claim that this run can settle, and why it cannot the others."""
    measured: dict[str, Estimate] = {}
    if standard:
        for base, find in ((0.9, _decaying), (1.0, _uniform)):
            if base in data.importance_base.values:
                measured |= find(data.sel(importance_base=base), tolerance)
    reason = "this run has other sizes, importances or sparsities"
    unmet = {c.id: reason for c in CLAIMS if c.quantity not in measured}
    return measured, unmet


def _decaying(data: xr.Dataset, tolerance: float) -> dict[str, Estimate]:
    found: dict[str, Estimate] = {}
    for p, cell in _cells(data):
        name = next((q for q in LOSSES if np.isclose(p, q)), None)
        if name is not None:
            found[f"T-loss-p{name:g}"] = exact(float(cell.optimum_loss) / 5)
        reached = cell.W.values[(cell.loss <= (1 + tolerance) * cell.optimum_loss).values]
        biases = cell.b.values[(cell.loss <= (1 + tolerance) * cell.optimum_loss).values]
        norms = np.linalg.norm(reached, axis=1)
        n = int(cell.sizes["seed"])
        best = cell.W.values[int(cell.best)]
        if np.isclose(p, 1) and len(reached) > 1:
            found["T1-norms"] = mean_estimate(norms[:, :2].mean(axis=1))
            found["T1-others"] = mean_estimate(norms[:, 2:].max(axis=1))
            found["T1-bias"] = mean_estimate(biases[:, 2:].mean(axis=1))
            cosine = np.sum(reached[:, :, 0] * reached[:, :, 1], axis=1) / norms[:, :2].prod(axis=1)
            found["T1-angle"] = mean_estimate(np.degrees(np.arccos(cosine)))
        if np.isclose(p, 0.2):
            found["T2-digons"] = exact(_digons(best), n)
            found["T2-dropped"] = exact(np.linalg.norm(best, axis=0).min(), n)
        if np.isclose(p, 0.1):
            found["T3-represented-p0.1"] = exact((np.linalg.norm(best, axis=0) > 0.5).sum(), n)
        if np.isclose(p, 0.05):
            found["T3-gaps"] = exact(np.abs(np.asarray(gaps(jnp.asarray(best))) - 72).max(), n)
            optimum = np.asarray(gaps(jnp.asarray(cell.optimum_W.values)))
            found["T3-optimum-gaps-low"] = exact(optimum.min())
            found["T3-optimum-gaps-high"] = exact(optimum.max())
            if len(reached) > 1:
                found["T3-norms"] = mean_estimate(norms.mean(axis=1))
                found["T3-bias"] = mean_estimate(biases.mean(axis=1))
    found["crossover-0.9"] = exact(_crossing(data))
    published = [np.isclose(1 - s, PUBLISHED, atol=1e-3).any() for s in data.sparsity.values]
    ok = (data.loss <= (1 + tolerance) * data.optimum_loss).isel(sparsity=published)
    # Cells share their seeds: the cells of a seed are averaged, and the interval counts seeds.
    if sum(published) == len(PUBLISHED):
        found["single-seed-misses"] = mean_estimate(1 - ok.mean("sparsity").values)
        anyone = ok.any("seed")
        found["best-reaches"] = proportion_estimate(int(anyone.sum()), anyone.size)
    return found


def _uniform(data: xr.Dataset, tolerance: float) -> dict[str, Estimate]:
    found = {"crossover-uniform": exact(_crossing(data))}
    for p, cell in _cells(data):
        if np.isclose(p, 0.05):
            norm = np.linalg.norm(cell.optimum_W.values, axis=0).mean()
            bias = cell.optimum_b.values.mean()
            found["E18-pentagon-norm"] = exact(norm)
            found["E18-pentagon-bias"] = exact(bias)
            found["E18-norm-rule"] = exact(1 / (1 - bias) / norm)
    return found


def _cells(data: xr.Dataset) -> list[tuple[float, xr.Dataset]]:
    return [(1 - float(s), data.isel(sparsity=i)) for i, s in enumerate(data.sparsity.values)]


def _crossing(data: xr.Dataset) -> float:
    ratio = data.pentagon_loss.values / data.digon_loss.values
    finite = np.isfinite(ratio)
    return crossing(data.crossover_density.values[finite], ratio[finite] - 1)


def _digons(W: np.ndarray) -> int:
    """Pairs of represented features with opposite directions."""
    kept = W[:, np.linalg.norm(W, axis=0) > 0.5]
    unit = kept / np.linalg.norm(kept, axis=0)
    return int((np.triu(unit.T @ unit, 1) < -0.98).sum())
