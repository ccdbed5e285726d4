"""Learning dynamics: levels of dimensionality, an octahedron, and kinks of the loss; no JAX."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line
from circuitax.figures.palette import BLUE, GREY, ORANGE
from circuitax.figures.style import PAGE, letter_panels, new_figure
from circuitax.records.sample import Absent, NotRun, Sample, geometric_mean_of, mean_of, share_of
from experiments.superposition.shared.figure_polytopes import turning_sets
from experiments.superposition.shared.kinks import kinks

STEPS = (6000, 6000)  # of both trainings at the scale that rows are about
DENSITY = 1 / 3  # of equal features, for which the next losses are
# Least exact loss of a digon, and of a feature without a direction.
DIGON, DROPPED = 0.035977, 1 / 12
ABOVE = 1.03  # final loss over that of digons
LEVELS = (0.0, 0.5)
LEVEL_WIDTH, DIGON_WIDTH = 0.1, 0.05
FIRST = 0.1  # share of training that is left out, in which everything moves
SIZE = 3  # features of a set
ANTIPODE, UPRIGHT = -0.9, 0.3  # cosines of an octahedron
SEPARATED, OPENED = 0.8, 0.5  # mean cosine inside a set
PLANE = 0.25  # a singular value over the first, below which W lacks its direction
APART = 15  # degrees by which two sets may miss a right angle
PHASE = 0.05  # share of training that is a phase
SHOWN = 0  # the seed of the single-network panels: the first one, whatever it shows


def drift(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """Every dimensionality goes evenly from its first value to its last."""
    ends = data.dimensionality.isel(step=[0, -1])
    even = xr.zeros_like(data.dimensionality) + ends.interp(step=data.step)
    return data.assign(dimensionality=even)


WORLDS = {"drift": drift}


def digons(data: xr.Dataset) -> Sample:
    """Share of seeds that end on `LEVELS` with the loss of as many digons as dimensions."""
    data, m = _wanted(data), data.attrs["n_hidden"]
    ends = on_level(data.dimensionality.values[-1], DIGON_WIDTH).all(axis=-1)
    best = m * DIGON + (data.sizes["feature"] - 2 * m) * DROPPED
    return share_of(ends & (data.loss.values[-1] <= ABOVE * best))


def on_levels(data: xr.Dataset) -> Sample:
    """Share on a level from `FIRST` to the last crossing of 1/4, of seeds with one after it."""
    d = _wanted(data).dimensionality.values
    steps = np.arange(len(d))[:, None]
    crossed = np.diff(d > np.mean(LEVELS), axis=0).any(axis=-1)
    last = np.where(crossed.any(axis=0), len(crossed) - crossed[::-1].argmax(axis=0), 0)
    first = FIRST * (len(d) - 1)
    window = ((steps >= first) & (steps <= last))[:, last > first]
    if not window.size:
        raise Absent("no feature changes level")
    shares = np.average(on_level(d).mean(axis=-1)[:, last > first], axis=0, weights=window)
    return mean_of(shares, bounds=(0, 1))


def on_levels_early(data: xr.Dataset) -> Sample:
    """Share on a level from `FIRST` to half of training."""
    d = _wanted(data).dimensionality.values
    share = data.step.values / data.step.values[-1]
    return mean_of(on_level(d[(share >= FIRST) & (share < 0.5)]).mean(axis=(0, 2)))


def drops(data: xr.Dataset) -> Sample:
    """Correlation over time of motion of D_i with the fall of log loss after `FIRST`, of seeds.

    Both less their mean over seeds; of features that do not stay on a level.
    """
    data = _wanted(data)
    late = data.isel(step=data.step.values >= FIRST * data.step.values[-1])
    d = late.dimensionality.values
    near = np.abs(d[..., None] - np.array(LEVELS)) <= LEVEL_WIDTH
    stays = (near[1:] & near[:-1]).any(axis=-1)  # on one level, now and at the next measurement
    moved = np.abs(np.diff(d, axis=0)).sum(axis=-1, where=~stays)
    fell = -np.diff(np.log(late.loss.values), axis=0)
    moved, fell = (each - each.mean(axis=1, keepdims=True) for each in (moved, fell))
    found = [np.corrcoef(a, b)[0, 1] for a, b in zip(moved.T, fell.T, strict=True)]
    return mean_of(found)


def octahedra(data: xr.Dataset) -> Sample:
    """Share of networks that end as an octahedron with antipodes in different sets."""
    return share_of(is_octahedron(_wanted(data).set_W.values[-1]))


def antipodes_across(data: xr.Dataset) -> Sample:
    """Share of the networks in antipodal pairs that have them across the sets."""
    W = _wanted(data).set_W.values[-1]
    paired = in_antipodal_pairs(W)
    if not paired.any():
        raise Absent("no network ends as an octahedron")
    return share_of(is_octahedron(W)[paired])


def in_order(data: xr.Dataset) -> Sample:
    """Share of seeds in which the regimes follow one another."""
    separated, opened, turned = regimes(_wanted(data)).values()
    return share_of((separated < opened) & (opened < turned))


def in_a_plane(data: xr.Dataset) -> Sample:
    """Share of seeds in which W is two sets at right angles in a plane for `PHASE` of training."""
    W = _wanted(data).set_W.values
    first, second, third = np.moveaxis(np.linalg.svd(W, compute_uv=False), -1, 0)
    there = (third <= PLANE * first) & (PLANE * first < second) & (inside(W) >= SEPARATED)
    there &= np.abs(across(W).mean(axis=(-1, -2))) <= np.sin(np.radians(APART))
    long = round(PHASE * (len(there) - 1))
    runs = np.lib.stride_tricks.sliding_window_view(there, long, axis=0).all(axis=-1)
    return share_of(runs.any(axis=0))


def kink_at_opening(data: xr.Dataset, shift: int = 0) -> Sample:
    """Distance of a seed's opening to its own kinks over that to others', geometric mean.

    Times as they are, or since log loss has half fallen: the greater mean of the two. With a
    ``shift`` each seed has the opening of one some places on.
    """
    data = _wanted(data)
    opens, log = np.roll(onset(data), -shift), np.log(data.set_loss.values)
    found = [kinks(data.set_step.values, row) for row in log.T]
    fallen = data.set_step.values[(log <= (log[0] + log[-1]) / 2).argmax(axis=0)]
    rows = [_near_opening(data, found, zero, opens) for zero in (0 * fallen, fallen)]
    if min(map(len, rows)) < 2:
        raise Absent("no two losses have a kink")
    return max((geometric_mean_of(row) for row in rows), key=lambda sample: sample.value)


def _wanted(data: xr.Dataset) -> xr.Dataset:
    """A run of the length and density that rows are about, without a network that diverged."""
    last = (int(data.step.values[-1]), int(data.set_step.values[-1]))
    if not np.isclose(data.attrs["density"], DENSITY) or last != STEPS:
        raise NotRun("this run has another length or density")
    if not (data.alive.all() and data.set_alive.all()):
        raise NotRun("this run has networks that diverged")
    return data


def on_level(dimensionality: np.ndarray, width: float = LEVEL_WIDTH) -> np.ndarray:
    """Whether each D_i is within ``width`` of 0 or of that of a digon."""
    return np.min([np.abs(dimensionality - level) for level in LEVELS], axis=0) <= width


def feature_cosines(W: np.ndarray) -> np.ndarray:
    """Cosines between all features, ``[..., feature, feature]``."""
    unit = W / np.maximum(np.linalg.norm(W, axis=-2, keepdims=True), 1e-12)
    return np.swapaxes(unit, -1, -2) @ unit


def across(W: np.ndarray) -> np.ndarray:
    """Cosines of the features of one set with those of the other, ``[..., SIZE, SIZE]``."""
    return feature_cosines(W)[..., :SIZE, SIZE:]


def inside(W: np.ndarray) -> np.ndarray:
    """Mean cosine between two features of one set, ``[...]``: 1 as one direction, 0 at the end."""
    cosine = feature_cosines(W)
    pairs = ~np.eye(SIZE, dtype=bool)
    blocks = (cosine[..., :SIZE, :SIZE], cosine[..., SIZE:, SIZE:])
    return np.mean([block[..., pairs].mean(axis=-1) for block in blocks], axis=0)


def in_antipodal_pairs(W: np.ndarray) -> np.ndarray:
    """Whether each feature has an antipode in either set and is upright on the rest, ``[...]``."""
    cosine = feature_cosines(W)
    # Two antipodes of one feature would not be upright on each other.
    rest = np.where((cosine <= ANTIPODE) | np.eye(2 * SIZE, dtype=bool), 0, np.abs(cosine))
    found: np.ndarray = (cosine.min(axis=-1) <= ANTIPODE).all(-1)
    return found & (rest.max(axis=(-1, -2)) <= UPRIGHT)


def is_octahedron(W: np.ndarray) -> np.ndarray:
    """Whether each feature has an antipode in the other set, and is upright on the rest."""
    # Antipodes of a set's three features, all in the other set, are all of that set.
    return in_antipodal_pairs(W) & (across(W).min(axis=-1) <= ANTIPODE).all(-1)


def regimes(data: xr.Dataset) -> dict[str, np.ndarray]:
    """First step of each regime of sets in each seed, in their order; NaN where it never occurs."""
    W, steps = data.set_W.values, data.set_step.values
    mean = inside(W)
    separated = _first(steps, (mean >= SEPARATED) & (across(W).mean(axis=(-1, -2)) <= OPENED))
    opened = _first(steps, (mean <= OPENED) & (steps[:, None] > separated))
    turned = _first(steps, is_octahedron(W))
    return {"one direction each": separated, "open": opened, "octahedron": turned}


def onset(data: xr.Dataset) -> np.ndarray:
    """Step at which sets begin to open: a tenth of the way from closest to last, ``[seed]``."""
    mean, steps = inside(data.set_W.values), data.set_step.values
    closest = mean.max(axis=0)
    after = np.arange(len(steps))[:, None] > mean.argmax(axis=0)
    return _first(steps, (mean <= closest - 0.1 * (closest - mean[-1])) & after)


def _first(steps: np.ndarray, true: np.ndarray) -> np.ndarray:
    return np.where(true.any(axis=0), steps[true.argmax(axis=0)].astype(float), np.nan)


def _near_opening(
    data: xr.Dataset, found: list[np.ndarray], zeros: np.ndarray, opens: np.ndarray
) -> np.ndarray:
    """Log of the distance from an opening to a kink of the seed over those to others' kinks.

    Times of a seed are counted from its own of ``zeros``.
    """
    steps, opens = data.set_step.values, opens - zeros
    # A distance below half a measurement is not known.
    least = 0.5 * (steps[1] - steps[0])
    rows = (row - zero for row, zero in zip(found, zeros, strict=True))
    nearest = [np.abs(opens[:, None] - row).min(axis=1, initial=np.inf) for row in rows]
    log = np.log(np.maximum(nearest, least)).T  # of each opening, to each seed's kinks
    own = np.eye(len(log), dtype=bool)
    others = np.isfinite(log) & ~own
    with np.errstate(invalid="ignore"):  # no other seed has a kink
        near = log[own] - np.where(others, log, 0).sum(axis=1) / others.sum(axis=1)
    return near[np.isfinite(near)]


def octahedron(data: xr.Dataset) -> Figure:
    """One network that opens, and the cosines of all networks."""
    steps, W, seeds = data.set_step.values, data.set_W.values, data.sizes["seed"]
    figure = Figure(figsize=(PAGE, 4.0))
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(1, 1.7)).flat
    first, times = int(np.isfinite(regimes(data)["octahedron"]).argmax()), [0.0]
    times += [each[first] for each in (*regimes(data).values(), onset(data))]
    times.append((times[2] + times[3]) / 2)
    shown = sorted(set(np.searchsorted(steps, [t for t in times if np.isfinite(t)])))
    turning_sets(above, W[shown, first], [f"step {steps[at]}" for at in shown])
    ax = below.subplots()
    mean_curve(ax, steps, inside(W), ORANGE, label="inside a set, mean", each=True)
    farthest = across(W).min(axis=-1).mean(axis=-1)
    mean_curve(ax, steps, farthest, BLUE, label="farthest of the other set", each=True)
    for height in (0, -1):
        reference_line(ax, y=height)
    ax.set(xlabel="step", ylabel=f"cosine, {seeds} seeds: mean, 95 %", ylim=(-1.05, 1.45))
    ax.legend(fontsize=6, loc="upper center")
    letter_panels([above.axes[0], ax])
    return figure


def levels(data: xr.Dataset) -> Figure:
    """Dimensionality of each feature of one network over training."""
    figure, axes = new_figure(1, 1, height=2.3)
    ax = axes[0, 0]
    curves = data.dimensionality.values[:, SHOWN].T
    kept = curves[:, -1] > np.mean(LEVELS)
    for chosen, colour, name in ((kept, BLUE, "in digons"), (~kept, GREY, "dropped")):
        lines = ax.plot(data.step.values, curves[chosen].T, color=colour, linewidth=0.8)
        lines[0].set_label(f"{chosen.sum()} features end {name}")
    for level in LEVELS:
        reference_line(ax, y=level)
    ax.set_yticks([0, 0.25, 0.5])
    ax.legend(loc="upper right")
    ax.set(xlabel="step", ylabel="dimensionality $D_i$", ylim=(-0.03, 0.75))
    size = f"{data.sizes['feature']} equal features in {data.attrs['n_hidden']}"
    ax.set_title(f"seed {SHOWN}: {size}, $p$ = {data.attrs['density']:.2g}", fontsize=7)
    return figure
