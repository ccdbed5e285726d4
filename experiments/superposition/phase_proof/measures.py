"""Measured values of the claims on proofs, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, exact
from circuitax.records.measured import Measured, measures
from circuitax.records.record import Record
from circuitax.superposition.polytopes import phases
from experiments.superposition.phase_proof.claims import CLAIMS

TRIPLE_OF_CLOSED_FORMS = 4 / 7
# A proven class as one of the phases; both kinds of superposition are one.
PHASE_OF = {"ignored": "ignored", "dedicated": "dedicated", "antipodal": "superposed"}


def measure(record: Record) -> Measured:
    """The measured value of every claim; without the library of balls nothing was run."""
    if record.notes["missing"]:
        return Measured({}, {}, unmet_rest(CLAIMS, {}, f"no balls: {record.notes['missing']}"))
    data = record.data
    named = proven_phases(data)
    proven, n = named != "", named.size
    width = (data.upper - data.lower).values
    slack = 1e-12
    loss = data.optimiser_loss.values
    inside = (loss >= data.lower.values - slack) & (loss <= data.upper.values + slack)
    closed = data.configuration_loss.min("configuration").values
    jumps = norm_jumps(data)
    triple, crossing = data.triple.values, data.crossing.values
    found = {
        "proof-classes": exact(proven.mean(), n),
        "proof-losses": exact((width <= 1e-6).mean(), n),
        "proof-optimiser-class": exact(_same(optimiser_phases(data), named), proven.sum()),
        "proof-optimiser-loss": exact(inside[proven].mean(), proven.sum()),
        "proof-closed-form-class": exact(_same(closed_form_phases(data), named), proven.sum()),
        "proof-closed-form-loss": exact((data.lower.values / closed).max(), n),
        "proof-formula": exact(np.nanmax(np.abs(data.formula_loss.values - loss))),
        "proof-balls": exact(data.n_wrong.sum(), data.n_repeated.sum()),
        "proof-boundaries": exact(_relative_widths(data).max()),
        "proof-triple-point": exact(np.diff(triple)[0]),
        "proof-triple-place": _interval(triple - TRIPLE_OF_CLOSED_FORMS),
        "proof-weak": _interval(np.sqrt(data.weak_second.values)),
        "proof-crossing": exact(np.diff(crossing)[0]),
        "proof-crossing-place": _interval(crossing),
        "proof-crossing-once": exact(_ordered(data).mean(), data.sizes["family_density"]),
    }
    rare = data.line.values <= 0.3
    if not rare.any():
        return Measured(found, {}, {"proof-first-order": "no density of 0.3 or less was looked at"})
    return Measured(found | {"proof-first-order": _least(jumps[:, rare])}, {})


def proven_phases(data: xr.Dataset) -> np.ndarray:
    """The phase that is proven at each point of the grid, empty where none is."""
    possible = data.possible.transpose("density", "importance", "class")
    names = np.array([PHASE_OF.get(str(name), "") for name in data["class"].values])
    number = possible.values.argmax(axis=-1)
    return np.where(possible.values.sum(axis=-1) == 1, names[number], "")


def optimiser_phases(data: xr.Dataset) -> np.ndarray:
    """The phase of the optimiser's best solution."""
    W = data.optimiser_W.values
    return phases(np.abs(W[..., 1]), np.where(W[..., 1] != 0, W[..., 0] ** 2, 0.0)).astype(str)


def closed_form_phases(data: xr.Dataset) -> np.ndarray:
    """The phase of the best closed form."""
    best = data.configuration_loss.fillna(np.inf).argmin("configuration").values
    regions = {"ignore_first": "dedicated", "ignore_last": "ignored"}
    names = [regions.get(str(c), "superposed") for c in data.configuration.values]
    return np.array(names)[best]


def norm_jumps(data: xr.Dataset) -> np.ndarray:
    """Least and greatest jump of the last feature's norm that the proofs leave, ``[2, line]``.

    Where a boundary is not enclosed, any jump is left.
    """
    norm = np.sqrt(data.boundary_second.transpose("side", "end", "line").values)
    (below_low, below_high), (above_low, above_high) = norm
    left = np.stack([above_low - below_high, above_high - below_low])
    return np.where(np.isnan(left), np.array([[-np.inf], [np.inf]]), left)


@measures("proof-first-order")
def _least(jumps: np.ndarray) -> Estimate:
    low, high = (float(end) for end in jumps.min(axis=1))
    return Estimate(max(low, 0.0), max(low, 0.0), high, jumps.shape[1], "proven range")


def _relative_widths(data: xr.Dataset) -> np.ndarray:
    """Width of each enclosed boundary; all importances of the grid where nothing is proven."""
    below, above = (data.boundary.sel(side=side).values for side in ("below", "above"))
    widths = above / below - 1
    whole = float(data.importance.max() / data.importance.min()) - 1
    return np.where(np.isnan(widths), whole, widths)


def _same(phases_: np.ndarray, proven: np.ndarray) -> float:
    where = proven != ""
    return float((phases_ == proven)[where].mean())


def _ordered(data: xr.Dataset) -> np.ndarray:
    pentagon, digons = data.pentagon, data.digons
    pentagon_better = (pentagon.sel(end="high") < digons.sel(end="low")).values
    digons_better = (digons.sel(end="high") < pentagon.sel(end="low")).values
    below, above = data.crossing.values
    p = data.family_density.values
    return np.where(p <= below, pentagon_better, np.where(p >= above, digons_better, False))


def _interval(ends: np.ndarray) -> Estimate:
    low, high = (float(end) for end in ends)
    return Estimate((low + high) / 2, low, high, 1, "proven enclosure")
