"""Measured values of the claims on uniform superposition, from a record."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, exact, mean_estimate, share_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.null_samples import DRAWS
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from circuitax.records.resampled import resampled_estimate
from experiments.superposition.shared.random_weights import dimensionalities, normal_weights
from experiments.superposition.shared.transitions import Transition, transitions
from experiments.superposition.toy_geometry.claims import CLAIMS, NOTEBOOK_STAR
from experiments.superposition.toy_geometry.labels import labels

# 1/p of the plateau at which every seed counts, and of the end of the comparison.
PLATEAU = (2.1, 3.6)
AFTER = 3.5  # 1/p from which on D* falls: its last density on the plateau and the later ones
# Features and rank of the polytopes whose lines the paper shows, beside the digon's.
LINES = {
    "tetrahedron": (4, 3),
    "triangle": (3, 2),
    "pentagon": (5, 2),
    "square antiprism": (8, 3),
}
LINE_WIDTH = 1 / 80  # to each side: half of the way from 3/8 to 2/5, the two nearest lines
LEAST_ON_LINE = 3 / 4  # of a shape's features, and of those on its line
MOST = 0.8  # of represented features, at which a network counts as the mixture
LEAST_KIND = 0.2  # of them, of each kind in it
N_DRAWS, N_OTHERS = 20, 500
# Densities of the notebook that quick scale leaves out.
BETWEEN = {1.17, 5.67, 7.77, 10.6, 14.6, 17.1}
LEAST_DIMENSIONALITY = 0.02  # the notebook's threshold for a feature that has any dimension
AT_HALF = 0.01  # to each side of 1/2: where a feature has half of a dimension


def measure(record: Record) -> Measured:
    """The measured value of every claim that this run can settle, and why it cannot the others."""
    data = record.data
    found: dict[str, Estimate] = {}
    if _wanted(data):
        m = record.notes["n_hidden"]
        found = _star(data) | _each(data, m) | _labels(data) | _theory(data)
    reason = "this run has other densities, or networks that diverged"
    return Measured(found, {}, unmet_rest(CLAIMS, found, reason))


def nulls(record: Record) -> Nulls:
    """Draws of the null: networks at their start, which all densities of a seed have in common."""
    data, m = record.data, record.notes["n_hidden"]
    if not _wanted(data):
        return {}
    found = []
    for i in range(N_DRAWS):
        start = _at_start(record, np.random.default_rng(i))
        found.append(_star(start) | _each(start, m) | _labels(start))
    x, flat = data.inverse_density.values, plateau(data)
    beside = x[x < PLATEAU[0]].max(), x[x > PLATEAU[1]].min()
    curves = (
        *(_power_law(data, *ends) for ends in ((x.min(), x.max()), beside)),
        _bridged(data),
        _half_then_power_law(data),
    )
    smooth, bridge, curved, held = (
        _star(data.assign(dimensions_per_feature=curve)) for curve in curves
    )
    windows = _other_windows(data, flat)
    return {
        "untrained": {name: [draw[name] for draw in found] for name in found[0]},
        "false world": {
            "T5-plateau": [one["T5-plateau"] for one in (smooth, bridge, curved)],
            "T5-values": [smooth["T5-values"], held["T5-values"]],
        },
        "mismatched": {
            "geometry-mixture": _other_densities(data),
            "T5-decrease": [_decrease(one) for one in _other_windows(data, _after(data))],
            "T6-half": [_at_half(one) for one in windows],
            "geometry-digons": [
                _digons(one)
                for one in windows
                if not np.isin(one.inverse_density, flat.inverse_density).any()
            ],
        },
        "random": _other_lines(data, record.notes["tolerances"]["spread"]),
    }


def _wanted(data: xr.Dataset) -> bool:
    """Whether a run has the densities that the claims are about, and no network diverged."""
    wanted = set(NOTEBOOK_STAR) - BETWEEN <= set(data.inverse_density.values.tolist())
    return wanted and bool(data.alive.all())


def _at_start(record: Record, rng: np.random.Generator) -> xr.Dataset:
    """As many networks as they are before training."""
    data, m = record.data, record.notes["n_hidden"]
    shape = (data.sizes["seed"], m, data.sizes["feature"])
    W = normal_weights(rng, record.notes["init_std"], *shape)
    of_features = ("seed", "feature")
    start = {
        "dimensionality": xr.DataArray(dimensionalities(W), dims=of_features),
        "polytope": xr.DataArray(labels(W, **record.notes["tolerances"]), dims=of_features),
        "dimensions_per_feature": xr.DataArray(m / (W**2).sum(axis=(1, 2)), dims="seed"),
    }
    alike = {k: v.expand_dims(inverse_density=data.inverse_density) for k, v in start.items()}
    return data.assign(alike).transpose(*data.dims)


def _other_densities(data: xr.Dataset) -> list[Estimate | None]:
    """Shares of mixtures where each seed has a density other than that of the claim."""
    others = _mixed(data.isel(inverse_density=data.inverse_density.values != 4.13))
    mixed, rng = others.transpose("seed", ...).values, np.random.default_rng(0)
    drawn = rng.integers(mixed.shape[1], size=(N_OTHERS, len(mixed)))
    return [_share_of_mixtures(mixed[np.arange(len(mixed)), row]) for row in drawn]


def _share_of_mixtures(mixed: ArrayLike) -> Estimate:
    """Share of seeds with the exact interval, since few of few seeds are so."""
    return share_estimate(mixed, method="exact")


def _other_windows(data: xr.Dataset, window: xr.Dataset) -> list[xr.Dataset]:
    """All other windows of as many densities beside each other as one has."""
    ordered, size = data.sortby("inverse_density"), window.sizes["inverse_density"]
    starts = range(ordered.sizes["inverse_density"] - size + 1)
    every = (ordered.isel(inverse_density=slice(i, i + size)) for i in starts)
    first = float(window.inverse_density.min())
    return [one for one in every if float(one.inverse_density[0]) != first]


def _power_law(data: xr.Dataset, low: float, high: float) -> xr.DataArray:
    """D* that is a power of 1/p through that of two densities, given as 1/p."""
    star, x = data.dimensions_per_feature, data.inverse_density
    dense, sparse = (np.log(star.sel(inverse_density=end)) for end in (low, high))
    return np.exp(dense + (sparse - dense) * np.log(x / low) / np.log(high / low))


def _bridged(data: xr.Dataset) -> xr.DataArray:
    """D* as measured but for the plateau, which a smooth fall between its neighbours replaces."""
    star = data.dimensions_per_feature.sortby("inverse_density").transpose("inverse_density", ...)
    x = star.inverse_density.values
    outside = (x < PLATEAU[0]) | (x > PLATEAU[1])
    fall = PchipInterpolator(np.log(x[outside]), np.log(star.values[outside]))
    return star.copy(data=np.exp(fall(np.log(x))))


def _half_then_power_law(data: xr.Dataset) -> xr.DataArray:
    """D* as measured, then 1/2 on the plateau, and from its end a power of 1/p."""
    star, x = data.dimensions_per_feature, np.log(data.inverse_density)
    end = float(np.log(plateau(data).inverse_density.max()))
    sparse = np.log(star.isel(inverse_density=x.values.argmax()))
    part = ((x - end) / (x.max() - end)).clip(0)
    law = np.exp(np.log(0.5) + (sparse - np.log(0.5)) * part)
    return law.where(data.inverse_density > PLATEAU[0], star)


def best_factors(data: xr.Dataset) -> list[Transition]:
    """Transitions over log 1/p between the best polytopes for filling."""
    at = np.log(data.theory_inverse_density.values)
    # Losses close to straight: the gain over what a dedicated dimension gains.
    gain = data.theory_gain.values / data.theory_gain.sel(factor="dedicated").values
    losses = {str(name): -row for name, row in zip(data.factor.values, gain, strict=True)}
    return [t._replace(at=float(np.exp(t.at))) for t in transitions(at, losses)]


def plateau(data: xr.Dataset) -> xr.Dataset:
    """The densities of the plateau."""
    x = data.inverse_density.values
    return data.isel(inverse_density=(x > PLATEAU[0]) & (x < PLATEAU[1]))


def _after(data: xr.Dataset) -> xr.Dataset:
    """The densities from the last of the plateau on."""
    return data.isel(inverse_density=data.inverse_density.values > AFTER)


@measures("T5-dense", "T5-plateau", "T5-values")
def _star(data: xr.Dataset) -> dict[str, Estimate]:
    """D* of all seeds."""
    star = data.dimensions_per_feature
    named = [x for x in data.inverse_density.values if x in NOTEBOOK_STAR]
    notebook = np.array([NOTEBOOK_STAR[x] for x in named])
    ratio = star.sel(inverse_density=named).transpose("seed", ...).values / notebook
    flat = plateau(data).dimensions_per_feature.transpose("seed", ...).values
    n = data.sizes["seed"]
    return {
        "T5-dense": mean_estimate(np.abs(star.sel(inverse_density=1.0) - 1)),
        "T5-plateau": resampled_estimate(
            lambda seeds: float(np.abs(flat[seeds].mean(axis=0) - 0.5).max()), n
        ),
        "T5-decrease": _decrease(_after(data)),
        "T5-values": resampled_estimate(
            lambda seeds: float(np.abs(ratio[seeds].mean(axis=0) - 1).max()), n
        ),
    }


@measures("T5-decrease")
def _decrease(data: xr.Dataset) -> Estimate:
    """Greatest step of D* from one density to the next sparser one."""
    star = data.sortby("inverse_density").dimensions_per_feature.transpose("seed", ...).values
    return resampled_estimate(
        lambda seeds: float(np.diff(star[seeds].mean(axis=0)).max()), data.sizes["seed"]
    )


@measures("T6-bound", "T6-half-mean", "T6-sum")
def _each(data: xr.Dataset, m: int) -> dict[str, Estimate]:
    """D_i and their sum."""
    total = data.dimensionality.sum("feature") / m
    flat = plateau(data).dimensionality
    kept = flat.where(flat > LEAST_DIMENSIONALITY)
    return {
        "T6-bound": exact(total.max(), data.sizes["seed"]),
        "T6-sum": mean_estimate(total.min("inverse_density")),
        "T6-half": _at_half(plateau(data)),
        "T6-half-mean": mean_estimate(kept.mean(["inverse_density", "feature"])),
    }


@measures("T6-half")
def _at_half(data: xr.Dataset) -> Estimate:
    """Share at 1/2 of the features with any dimension, mean over densities; 0 where none has."""
    D = data.dimensionality
    kept = D > LEAST_DIMENSIONALITY
    count = (kept & (np.abs(D - 1 / 2) <= AT_HALF)).sum("feature")
    shares = count / np.maximum(kept.sum("feature"), 1)
    return mean_estimate(shares.mean("inverse_density"))


def _mixed(data: xr.Dataset) -> xr.DataArray:
    """Whether most represented features are near 1/2 or 2/5, and enough of them near each."""
    represented = data.polytope >= 0
    near = [(abs(data.dimensionality - line) < 0.03) & represented for line in (1 / 2, 2 / 5)]
    half, fifths = (kind.sum("feature") / represented.sum("feature") for kind in near)
    return (half + fifths >= MOST) & (half >= LEAST_KIND) & (fifths >= LEAST_KIND)


@measures("geometry-digons")
def _digons(data: xr.Dataset) -> Estimate:
    """Share of digons among a seed's represented features, whose interval ends at 1 at most."""
    labelled = data.polytope.transpose("seed", ...).values.reshape(data.sizes["seed"], -1)
    digons = (labelled == data.name.values.tolist().index("digon")).sum(axis=1)
    shares = digons / np.maximum((labelled >= 0).sum(axis=1), 1)
    return resampled_estimate(lambda seeds: float(shares[seeds].mean()), shares.size)


@measures("geometry-mixture", "geometry-mixture-digons")
def _labels(data: xr.Dataset) -> dict[str, Estimate]:
    """Names of the polytopes in the code."""
    cell = data.sel(inverse_density=4.13)
    some = cell.dimensionality > LEAST_DIMENSIONALITY
    half = (abs(cell.dimensionality - 1 / 2) < 0.03) & some
    return {
        "geometry-digons": _digons(plateau(data)),
        "geometry-mixture-digons": mean_estimate(half.sum("feature") / some.sum("feature")),
        "geometry-mixture": _share_of_mixtures(_mixed(cell)),
        **_lines(data),
    }


@measures(
    "geometry-pentagon",
    "geometry-square-antiprism",
    "geometry-tetrahedron",
    "geometry-triangle",
)
def _lines(data: xr.Dataset) -> dict[str, Estimate]:
    """Shares of the seeds with a shape in which the line at its D_i is that of the shape."""
    counts = {name: _on_line(data, name) for name in LINES}
    return {_of_line(name): _is_its_line(*n) for name, n in counts.items() if n[0].any()}


def _of_line(name: str) -> str:
    """The claim on the line of a shape."""
    return f"geometry-{name.replace(' ', '-')}"


def _on_line(data: xr.Dataset, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each seed's features of a shape, those of them on its line, and others there."""
    k, rank = LINES[name]
    of_shape = data.polytope == data.name.values.tolist().index(name)
    near = abs(data.dimensionality - rank / k) <= LINE_WIDTH
    every, there, others = (
        x.sum(["inverse_density", "feature"]).values
        for x in (of_shape, of_shape & near, ~of_shape & near)
    )
    return every, there, others


def _is_its_line(every: np.ndarray, there: np.ndarray, others: np.ndarray) -> Estimate:
    """Share of the seeds with a shape in which it is on its line, and little else is."""
    its_own = there >= LEAST_ON_LINE * np.maximum(every, there + others)
    return share_estimate(its_own[every > 0])


def _other_lines(data: xr.Dataset, spread: float) -> Mapping[str, Draws]:
    """The same for D_i anywhere within the spread that labels allow, and for shuffled labels."""
    chance = min(LINE_WIDTH / spread, 1.0)
    found: dict[str, list[Estimate | None]] = {}
    for name in LINES:
        (every, _, others), rng = _on_line(data, name), np.random.default_rng(0)
        found[_of_line(name)] = (
            [_is_its_line(every, rng.binomial(every, chance), others) for _ in range(DRAWS)]
            if every.any()
            else [None]
        )
    shapes = [data.name.values.tolist().index(name) for name in LINES]
    some = data.polytope.isin(shapes).any(["seed", "feature"]).values
    rng = np.random.default_rng(0)
    for _ in range(DRAWS if some.any() else 0):
        for line, draw in _lines(_relabelled(data, some, rng)).items():
            found[line].append(draw)
    return found


def _relabelled(data: xr.Dataset, some: np.ndarray, rng: np.random.Generator) -> xr.Dataset:
    """Labels shuffled among the represented features of each network, at some densities alone."""
    cells = data.polytope.transpose("inverse_density", "seed", "feature").copy(deep=True)
    labelled = cells.values[some]
    absent = labelled < 0
    drawn = np.where(absent, 1, rng.random(labelled.shape)).argsort(axis=-1)
    places = absent.argsort(axis=-1, kind="stable")
    np.put_along_axis(labelled, places, np.take_along_axis(labelled, drawn, -1), -1)
    cells.values[some] = labelled
    return data.assign(polytope=cells)


@measures("geometry-digon-*")
def _theory(data: xr.Dataset) -> dict[str, Estimate]:
    """Range over which digons are the best filling."""
    changes = best_factors(data)
    found = {}
    for change in changes:
        if change.after == "digon":
            found["geometry-digon-from"] = exact(change.at)
        if change.before == "digon":
            found["geometry-digon-to"] = exact(change.at)
    return found
