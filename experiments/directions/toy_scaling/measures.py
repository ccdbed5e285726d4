"""Measured values of the claims on scaling with width, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.null_draws import shuffled
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from experiments.directions.toy_scaling.claims import CLAIMS, DECAYS, STRONG, WEAK

REPRESENTED = 0.5
BETWEEN = (0.3, 0.6)
# A mode has this share of features at least, half of m/n at the smallest width.
LEAST_MODE = 0.005
# Sum of the learning rates of all steps at evening scale, which tells how far decay alone goes.
RATES = 13.07
N_DRAWS = 20
ARMS = (
    *((0.0, STRONG), (2.0, STRONG), (1.5, WEAK), (2.0, WEAK)),
    *((1.0, decay) for decay in DECAYS.values()),
)


def measure(record: Record) -> Measured:
    """The measured value of every claim that this run can settle, and why it cannot the others."""
    data = record.data
    if not _wanted(data):
        reason = "this run has other arms or fewer widths, or networks that diverged"
        return Measured({}, {}, unmet_rest(CLAIMS, {}, reason))
    found = _exponents(data) | _norms(data) | _overlaps(data) | _bimodal(data)
    return Measured(found, unmet_rest(CLAIMS, found, "norms have no mode below 0.3"))


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: norms at the start and decayed, random directions, shuffled norms."""
    data = record.data
    if not _wanted(data):
        return {}
    rngs = [np.random.default_rng(i) for i in range(N_DRAWS)]
    each = ["seed", "width", "arm"]
    starts = [_start_norms(data, rng) for rng in rngs]
    start = [_norms(data.assign(norm=norm)) for norm in starts]
    decayed = [_norms(data.assign(norm=_decayed(data, norm))) for norm in starts]
    random = [_overlaps(data.assign(overlap=_random_overlaps(data, rng))) for rng in rngs]
    others = [shuffled(data, ["norm"], "feature", rng, each) for rng in rngs]
    flat = [_bimodal(data.assign(norm=_flat_tail(data, rng))) for rng in rngs]
    return {
        "untrained": {name: [draw[name] for draw in start] for name in start[0]}
        | {"scaling-lever": [draw["scaling-lever"] for draw in decayed]},
        "random": {name: [draw[name] for draw in random] for name in random[0]}
        | {name: [draw.get(name) for draw in flat] for name in _bimodal(data)},
        "permuted": {"scaling-weak-loss": [_unlearned_loss(arm(one, 2.0, WEAK)) for one in others]},
    }


def arm(data: xr.Dataset, alpha: float, decay: float) -> xr.Dataset:
    """The runs of one law of frequencies and one decay."""
    (at,) = np.flatnonzero((data.alpha.values == alpha) & (data.decay.values == decay))
    return data.isel(arm=int(at))


def exponent(width: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Exponent of decay: minus the slope of log values over log width, ``[..., width]``."""
    at = np.log(width) - np.log(width).mean()
    return -(np.log(values) @ at) / (at @ at)


def represented(data: xr.Dataset) -> xr.DataArray:
    """Number of features of norm above 1/2."""
    return (data.norm > REPRESENTED).sum("feature")


def _wanted(data: xr.Dataset) -> bool:
    """Whether a run has the arms that the claims are about, and no network diverged."""
    arms = set(zip(data.alpha.values.tolist(), data.decay.values.tolist(), strict=True))
    enough = arms.issuperset(ARMS) and data.sizes["width"] > 2
    return enough and bool(data.alive.all())


def _start_norms(data: xr.Dataset, rng: np.random.Generator) -> xr.DataArray:
    """Norms of features at the start, where entries have the variance 1/m."""
    dims = ("seed", "width", "arm", "feature")
    width = data.width.values[:, None, None]
    squares = rng.chisquare(width, [data.sizes[name] for name in dims]) / width
    return xr.DataArray(np.sqrt(squares), dims=dims)


def _decayed(data: xr.Dataset, norm: xr.DataArray) -> xr.DataArray:
    """Norms after the decay of all steps without data: towards 1 if it is negative, else to 0."""
    end = (data.decay < 0).astype(float)
    return (norm - end) * np.exp(-abs(data.decay) * RATES) + end


def _flat_tail(data: xr.Dataset, rng: np.random.Generator) -> xr.DataArray:
    """Norms of one mode at 0, and of a tail without a second one up to the greatest of a model."""
    low, top = BETWEEN[0], data.norm.max("feature")
    tail = low + (top - low) * data.norm.copy(data=rng.random(data.norm.shape))
    return data.norm.where(data.norm <= low, tail)


def _random_overlaps(data: xr.Dataset, rng: np.random.Generator) -> xr.DataArray:
    """Mean squared overlap of two random directions of each width."""
    n = data.sizes["feature"]
    found = np.zeros((data.sizes["seed"], data.sizes["width"]))
    for i, width in enumerate(data.width.values):
        for seed in range(data.sizes["seed"]):
            W = rng.standard_normal((int(width), n))
            unit = W / np.linalg.norm(W, axis=0)
            found[seed, i] = (np.sum((unit @ unit.T) ** 2) - n) / (n * (n - 1))
    return xr.DataArray(found, dims=("seed", "width")).expand_dims(arm=data.sizes["arm"])


@measures("scaling-strong-*", "scaling-weak-tail-*", "scaling-weak")
def _exponents(data: xr.Dataset) -> dict[str, Estimate]:
    width = data.width.values
    found = {}
    for name, alpha in (("flat", 0.0), ("power", 1.0), ("skewed", 2.0)):
        loss = arm(data, alpha, STRONG).loss.transpose("seed", "width").values
        found[f"scaling-strong-{name}"] = mean_estimate(exponent(width, loss))
    for name, alpha in (("1.5", 1.5), ("2", 2.0)):
        weak = arm(data, alpha, WEAK)
        fitted = exponent(width, weak.loss.transpose("seed", "width").values)
        tail = exponent(width, weak.ignored.values)
        found[f"scaling-weak-tail-{name}"] = mean_estimate(fitted - tail)
    found["scaling-weak"] = mean_estimate(fitted)
    found["scaling-weak-loss"] = _unlearned_loss(weak)
    return found


@measures("scaling-weak-loss")
def _unlearned_loss(weak: xr.Dataset) -> Estimate:
    """Loss over 4/3 of the frequencies of the features that are not represented."""
    unlearned = (weak.density * (weak.norm <= REPRESENTED)).sum("feature")
    return mean_estimate((weak.loss / (4 / 3 * unlearned)).mean("width"))


@measures("scaling-bimodal-*")
def _bimodal(data: xr.Dataset) -> dict[str, Estimate]:
    """Features between two modes of norms over those of the smaller one, by decay if it has two."""
    found, dims = {}, ["width", "feature"]
    for name, decay in DECAYS.items():
        norm = arm(data, 1.0, decay).norm
        below, above = (norm <= BETWEEN[0]).mean(dims), (norm >= BETWEEN[1]).mean(dims)
        smaller = np.minimum(below, above)
        if smaller.min() >= LEAST_MODE:
            found[f"scaling-bimodal-{name}"] = mean_estimate((1 - below - above) / smaller)
    return found


@measures("scaling-represented-*", "scaling-lever", "scaling-long")
def _norms(data: xr.Dataset) -> dict[str, Estimate]:
    strong, weak = (arm(data, 1.0, decay) for decay in (STRONG, WEAK))
    n, smallest = data.sizes["feature"], int(data.width[0])
    share = [represented(one).mean("width") / n for one in (strong, weak)]
    long = (strong.norm.sel(width=smallest) > 1).sum("feature")
    return {
        "scaling-represented-strong": mean_estimate(share[0], bounds=(0, 1)),
        "scaling-represented-weak": mean_estimate((represented(weak) / weak.width).mean("width")),
        "scaling-lever": mean_estimate(share[0] - share[1]),
        "scaling-long": mean_estimate(long / (smallest**2 / 2)),
    }


@measures("scaling-overlap", "scaling-tight", "scaling-welch")
def _overlaps(data: xr.Dataset) -> dict[str, Estimate]:
    flat = arm(data, 0.0, STRONG)
    overlap = flat.overlap.transpose("seed", "width").values
    bound = (data.welch / data.overlap).max()
    return {
        "scaling-overlap": mean_estimate(exponent(data.width.values, overlap)),
        "scaling-welch": exact(bound, data.sizes["seed"]),
        "scaling-tight": mean_estimate((flat.overlap / flat.welch).mean("width")),
    }
