"""The geometry of uniform superposition: what is read from the record, and its figures; no JAX."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line
from circuitax.figures.palette import BLUE, GREY, ORANGE, POLYTOPE_COLOURS
from circuitax.figures.style import COLUMN, new_figure, sample_note
from circuitax.records.estimate import share_estimate
from circuitax.records.sample import (
    Absent,
    NotRun,
    Sample,
    exactly,
    mean_of,
    resampled,
    sample,
    share_of,
)
from experiments.superposition.shared.figure_polytopes import polytopes_beside
from experiments.superposition.shared.phase_axes import density_axis
from experiments.superposition.shared.random_weights import dimensionalities, normal_weights
from experiments.superposition.shared.transitions import transitions
from experiments.superposition.toy_geometry.labels import labels

# 1/p of D* of the official notebook's saved run.
NOTEBOOK_STAR = {
    **{1.0: 1.003, 1.17: 0.998, 1.37: 0.951, 1.6: 0.830, 1.88: 0.584, 2.2: 0.526, 2.58: 0.510},
    **{3.02: 0.505, 3.53: 0.503, 4.13: 0.433, 4.84: 0.369, 5.67: 0.341, 6.63: 0.289, 7.77: 0.261},
    **{9.09: 0.228, 10.6: 0.208, 12.5: 0.188, 14.6: 0.170, 17.1: 0.151, 20.0: 0.136},
}
# Densities of the notebook that quick scale leaves out.
BETWEEN = {1.17, 5.67, 7.77, 10.6, 14.6, 17.1}
PLATEAU = (2.1, 3.6)  # 1/p
AFTER = 3.5  # 1/p from which on D* falls: its last density on the plateau and the later ones
MIXTURE = 4.13  # 1/p of the notebook's mixture of shapes
LINE_WIDTH = 1 / 80  # to each side: half of the way from 3/8 to 2/5, the two nearest lines
LEAST_ON_LINE = 3 / 4  # of a shape's features, and of those on its line
MOST = 0.8  # of represented features, at which a network counts as the mixture
LEAST_KIND = 0.2  # of them, of each kind in it
LEAST_DIMENSIONALITY = 0.02  # the notebook's threshold for a feature that has any dimension
AT_HALF, NEAR_HALF = 0.01, 0.03  # to each side of a line
LINES = {
    "tetrahedron": ("3/4", 3 / 4),
    "triangle": ("2/3", 2 / 3),
    "digon": ("1/2", 1 / 2),
    "pentagon": ("2/5", 2 / 5),
    "square antiprism": ("3/8", 3 / 8),
}
TICKS = [1, 0.5, 0.3, 0.2, 0.1, 0.05]


def at_start(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """As many networks as they are before training, which all densities of a seed share."""
    m = data.attrs["n_hidden"]
    std, shape = data.attrs["init_std"], (data.sizes["seed"], m, data.sizes["feature"])
    W = normal_weights(rng, std, *shape)
    of_features = ("seed", "feature")
    start = {
        "dimensionality": xr.DataArray(dimensionalities(W), dims=of_features),
        "polytope": xr.DataArray(labels(W), dims=of_features),
        "dimensions_per_feature": xr.DataArray(m / (W**2).sum(axis=(1, 2)), dims="seed"),
    }
    alike = {k: v.expand_dims(inverse_density=data.inverse_density) for k, v in start.items()}
    return data.assign(alike).transpose(*data.dims)


def power_law(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """D* is a power of 1/p through that of the densest and of the sparsest features."""
    star, x = data.dimensions_per_feature, data.inverse_density
    low, high = float(x.min()), float(x.max())
    dense, sparse = (np.log(star.sel(inverse_density=end)) for end in (low, high))
    law = np.exp(dense + (sparse - dense) * np.log(x / low) / np.log(high / low))
    return data.assign(dimensions_per_feature=law)


WORLDS = {"untrained": at_start, "power law": power_law}


def curve(data: xr.Dataset) -> dict[str, Sample]:
    """D* where features are dense, on the plateau, after it, and beside the notebook's."""
    star = _wanted(data).dimensions_per_feature
    x, n = data.inverse_density.values, data.sizes["seed"]
    named = [at for at in x if at in NOTEBOOK_STAR]
    notebook = np.array([NOTEBOOK_STAR[at] for at in named])
    ratio = star.sel(inverse_density=named).transpose("seed", ...).values / notebook
    flat = plateau(data).dimensions_per_feature.transpose("seed", ...).values
    after = star.isel(inverse_density=x > AFTER).sortby("inverse_density")
    steps = after.transpose("seed", ...).values
    return {
        "T5-dense": mean_of(np.abs(star.sel(inverse_density=1.0) - 1)),
        "T5-plateau": resampled(
            lambda seeds: float(np.abs(flat[seeds].mean(axis=0) - 0.5).max()), n
        ),
        "T5-decrease": resampled(lambda seeds: float(np.diff(steps[seeds].mean(axis=0)).max()), n),
        "T5-values": resampled(lambda seeds: float(np.abs(ratio[seeds].mean(axis=0) - 1).max()), n),
    }


def dimensionality(data: xr.Dataset) -> dict[str, Sample]:
    """D_i on the plateau, and their sum over m at all densities."""
    total = _wanted(data).dimensionality.sum("feature") / data.attrs["n_hidden"]
    D = plateau(data).dimensionality
    kept = D > LEAST_DIMENSIONALITY
    at_half = (kept & (np.abs(D - 1 / 2) <= AT_HALF)).sum("feature")
    shares = at_half / np.maximum(kept.sum("feature"), 1)
    return {
        "T6-bound": exactly(total.max(), data.sizes["seed"]),
        "T6-sum": mean_of(total.min("inverse_density")),
        "T6-half": mean_of(shares.mean("inverse_density")),
        "T6-half-mean": mean_of(D.where(kept).mean(["inverse_density", "feature"])),
    }


def digons(data: xr.Dataset) -> Sample:
    """Share of digons among a seed's represented features on the plateau."""
    labelled = plateau(_wanted(data)).polytope.transpose("seed", ...).values
    labelled = labelled.reshape(data.sizes["seed"], -1)
    of_digons = (labelled == data.name.values.tolist().index("digon")).sum(axis=1)
    shares = of_digons / np.maximum((labelled >= 0).sum(axis=1), 1)
    return resampled(lambda seeds: float(shares[seeds].mean()), shares.size)


def mixture(data: xr.Dataset) -> dict[str, Sample]:
    """Features near 1/2 and 2/5 at the density of the notebook's mixture."""
    cell = _wanted(data).sel(inverse_density=MIXTURE)
    D, represented = cell.dimensionality, cell.polytope >= 0
    near = [(abs(D - line) < NEAR_HALF) & represented for line in (1 / 2, 2 / 5)]
    # A network without a represented feature is no mixture.
    count = np.maximum(represented.sum("feature"), 1)
    half, fifths = (kind.sum("feature") / count for kind in near)
    mixed = (half + fifths >= MOST) & (half >= LEAST_KIND) & (fifths >= LEAST_KIND)
    some = D > LEAST_DIMENSIONALITY
    at_half = (abs(D - 1 / 2) < NEAR_HALF) & some
    return {
        # Few seeds: the exact interval.
        "geometry-mixture": sample(share_estimate(mixed, method="exact")),
        "geometry-mixture-digons": mean_of(at_half.sum("feature") / some.sum("feature")),
    }


def is_its_line(data: xr.Dataset, shape: str) -> Sample:
    """Share of the seeds with a shape in which it is on its line of D_i, and little else is."""
    of_shape = _wanted(data).polytope == data.name.values.tolist().index(shape)
    near = abs(data.dimensionality - LINES[shape][1]) <= LINE_WIDTH
    every, there, on_line = (
        x.sum(["inverse_density", "feature"]).values for x in (of_shape, of_shape & near, near)
    )
    if not every.any():
        raise Absent(f"no network has a {shape}")
    return share_of((there >= LEAST_ON_LINE * np.maximum(every, on_line))[every > 0])


def _wanted(data: xr.Dataset) -> xr.Dataset:
    """A run of the densities that rows are about, without a network that diverged."""
    if not set(NOTEBOOK_STAR) - BETWEEN <= set(data.inverse_density.values.tolist()):
        raise NotRun("this run has other densities")
    if not data.alive.all():
        raise NotRun("this run has networks that diverged")
    return data


def plateau(data: xr.Dataset) -> xr.Dataset:
    """The densities of the plateau."""
    x = data.inverse_density.values
    return data.isel(inverse_density=(x > PLATEAU[0]) & (x < PLATEAU[1]))


def dimensions(data: xr.Dataset) -> Figure:
    """D* over 1/p: seeds, the notebook's run, and the exact best filling."""
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.6)
    ax = axes[0, 0]
    x, star = 1 / data.inverse_density.values, data.dimensions_per_feature.values
    n, m = data.sizes["feature"], data.attrs["n_hidden"]
    label = f"{len(star)} seeds, {n} features in {m}: mean, 95 %"
    mean_curve(ax, x, star.T, BLUE, label=label, each=True, marker=".")
    crosses = {"markersize": 4, "label": "notebook, one run, 200 in 20"}
    ax.plot(1 / np.array(list(NOTEBOOK_STAR)), list(NOTEBOOK_STAR.values()), "kx", **crosses)
    theory = 1 / data.theory_inverse_density.values
    gain = data.theory_gain.values
    best = gain.argmax(axis=0)
    sizes = (data.factor_features / data.factor_dimensions).values
    norm = data.theory_norm.values[best, np.arange(best.size)]
    height = 1 / (sizes[best] * norm**2)
    # Denser packings than the listed ones win where the densest of the list does.
    known = sizes[best] < sizes.max()
    line = {"color": ORANGE, "linewidth": 1, "label": f"exact best of {len(sizes)} polytopes"}
    ax.plot(theory[known], height[known], **line)
    # Losses close to straight over log p: the gain over what a dedicated dimension gains.
    losses = -gain / data.theory_gain.sel(factor="dedicated").values
    for i, at in enumerate(np.exp(transitions(np.log(1 / theory), losses))):
        named = "exact change of polytope" if i == 0 else None
        reference_line(ax, x=1 / at, colour=GREY, label=named)
    reference_line(ax, y=0.5)
    ax.set(ylabel="$D^* = m / |W|_F^2$", ylim=(0, 1.1))
    density_axis(ax, TICKS)
    ax.legend(loc="upper right", fontsize=6, frameon=True, framealpha=1, edgecolor="none")
    return figure


def features(data: xr.Dataset) -> Figure:
    """D_i of every represented feature with its polytope."""
    figure, axes = new_figure(1, 1, height=3.3)
    ax = axes[0, 0]
    names = [str(name) for name in data.name.values]
    label = data.polytope.values
    x = np.broadcast_to(1 / data.inverse_density.values[None, :, None], label.shape)
    random = np.random.default_rng(0).normal(0, 0.012, label.shape)
    groups = {name: [names.index(name)] for name in POLYTOPE_COLOURS if name in names}
    groups = {name: numbers for name, numbers in groups.items() if np.isin(label, numbers).any()}
    groups["other component"] = [i for i in range(len(names)) if names[i] not in POLYTOPE_COLOURS]
    for name, numbers in list(groups.items())[::-1]:
        chosen = np.isin(label, numbers)
        dots = {"markersize": 2.5 if name in POLYTOPE_COLOURS else 1.5, "alpha": 0.5}
        at, D = (x * np.exp(random))[chosen], data.dimensionality.values[chosen]
        ax.plot(at, D, ".", color=POLYTOPE_COLOURS.get(name, GREY), rasterized=True, **dots)
    for _, height in LINES.values():
        reference_line(ax, y=height, colour=GREY)
    polytopes_beside(ax, LINES)
    ax.set(ylabel="dimensionality $D_i$", ylim=(0, 1.05))
    density_axis(ax, TICKS)
    sample_note(figure, f"every represented feature of {len(label)} seeds")
    return figure
