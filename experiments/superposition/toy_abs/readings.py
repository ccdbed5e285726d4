"""Can a layer compute absolute values of more features than it has neurons for?"""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.style import new_figure, sample_note
from circuitax.records.sample import (
    Absent,
    NotRun,
    Sample,
    best_of,
    difference_of,
    geometric_mean_of,
    mean_of_those_finite,
    share_of,
)
from experiments.superposition.shared.cell_readings import place_of

# What one side of one neuron does for a feature counts from here; 1 is all of it.
SERVES = 0.5
# Features over which the squared input weights of a highly polysemantic neuron spread.
SPREAD = 3
# Share of one feature in a neuron's squared weights from which it is pure.
LEAST_PURITY = 0.9


def shuffled_weights(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """The small networks with the entries of each matrix shuffled."""
    changed = {}
    for name in ("sanity_W_in", "sanity_W_out"):
        W = data[name]
        rows = rng.permuted(W.values.reshape(*W.shape[:2], -1), axis=-1)
        changed[name] = (W.dims, rows.reshape(W.shape))
    return data.assign(changed)


def random_neurons(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """The sweep with normal input weights of as many features, and every neuron in use."""
    features = data.sizes["sweep_feature"]
    squares = rng.standard_normal((*data.sweep_pure.shape, features)) ** 2
    pure = squares.max(axis=-1) >= LEAST_PURITY * squares.sum(axis=-1)
    return data.assign(
        sweep_pure=(data.sweep_pure.dims, pure),
        sweep_live=(data.sweep_live.dims, np.ones_like(pure)),
    )


WORLDS = {"shuffled_weights": shuffled_weights, "random_neurons": random_neurons}


def two_each(data: xr.Dataset) -> dict[str, Sample]:
    """Features of the small networks that have a pure neuron for each side."""
    if (data.sizes["sanity_feature"], data.sizes["sanity_neuron"]) != (3, 6):
        raise NotRun("this run has other sizes")
    dims = ("sanity_seed", "sanity_feature", "sanity_neuron")
    W_in = data.sanity_W_in[0].transpose(*dims).values
    W_out = data.sanity_W_out[0].transpose("sanity_seed", *dims[:0:-1]).values
    sides = np.array([both_sides(*ends).sum() for ends in zip(W_in, W_out, strict=True)])
    return {
        "T10-neurons": best_of(data.sanity_loss.values[0], sides),
        "T10-networks": share_of(sides == 3),
    }


def all_monosemantic(data: xr.Dataset, density: float) -> Sample:
    """Share of the networks with a neuron in use in which every neuron in use is monosemantic."""
    share = _at(data, density, monosemantic(data))
    return share_of(share == 1)


def monosemantic_share(data: xr.Dataset, density: float) -> Sample:
    """Share of the neurons in use that are monosemantic, mean of networks."""
    return mean_of_those_finite(_at(data, density, monosemantic(data)), bounds=(0, 1))


def polysemantic_growth(data: xr.Dataset) -> Sample:
    """Polysemantic neurons at p = 0.01 less those at 0.03, over all neurons of the network."""
    mixed = (data.sweep_live & ~data.sweep_pure).mean("sweep_neuron")
    share = mixed.where(np.isfinite(data.sweep_loss)).transpose("sweep_density", "sweep_seed")
    sparser, denser = (place_of(p, data.sweep_density) for p in (0.01, 0.03))
    return mean_of_those_finite(share.values[sparser] - share.values[denser])


def highly_polysemantic(data: xr.Dataset, density: float) -> Sample:
    """Share of the neurons in use of the best network that spread over three features or more."""
    return share_of(_neurons(data, density)[1])


def unimportant(data: xr.Dataset) -> Sample:
    """Place in importance of highly polysemantic neurons' main features, less that of others."""
    main, spread = _neurons(data, 0.03)
    if not 1 < spread.sum() < spread.size - 1:
        raise Absent("fewer than two neurons are highly polysemantic, or all are")
    return difference_of(main[spread], main[~spread])


def has_motif(data: xr.Dataset, density: float) -> Sample:
    """Share of networks that have an asymmetric motif."""
    cell = place_of(density, data.motif_density)
    there = data.case_seed.values[data.case_cell.values == cell]
    return share_of(np.isin(data.motif_seed.values, there))


def motif_ratio(data: xr.Dataset, end: str) -> Sample:
    """Ratio of the two weights of a motif, geometric mean over motifs and networks."""
    seeds = np.unique(data.case_seed.values)
    if len(seeds) < 2:
        raise Absent("fewer than two networks have the motif")
    logs = np.log(data[f"case_{end}_ratio"].values)
    # Motifs of one network are averaged first: the interval counts networks.
    return geometric_mean_of([logs[data.case_seed.values == seed].mean() for seed in seeds])


def monosemantic(data: xr.Dataset) -> np.ndarray:
    """Share of a model's neurons in use that serve one feature, ``[density, seed]``."""
    live = data.sweep_live.sum("sweep_neuron")
    return (data.sweep_pure.sum("sweep_neuron") / live.where(live > 0)).values


def both_sides(W_in: np.ndarray, W_out: np.ndarray) -> np.ndarray:
    """Whether each feature has one neuron for its positive side and one for its negative side.

    Neurons count that read one feature, and write one.
    """
    squares = np.stack([W_in.T, W_out]) ** 2
    pure = (squares.max(axis=-1) >= LEAST_PURITY * squares.sum(axis=-1)).all(axis=0)
    does = (np.abs(W_in).T * W_out > SERVES) & pure[:, None]
    up, down = ((does & (sign * W_in.T > 0)).sum(axis=0) for sign in (1, -1))
    return (up == 1) & (down == 1)


def _at(data: xr.Dataset, density: float, values: np.ndarray) -> np.ndarray:
    """The finite numbers of the networks of a density, of ``[density, seed]``."""
    row = values[place_of(density, data.sweep_density)]
    if not np.isfinite(row).any():
        raise Absent("no network has a neuron in use")
    finite: np.ndarray = row[np.isfinite(row)]
    return finite


def _neurons(data: xr.Dataset, p: float) -> tuple[np.ndarray, np.ndarray]:
    """Main feature of each neuron in use, and whether it spreads over `SPREAD` features or more.

    Of the network of lowest loss; a neuron spreads over the participation ratio of its squared
    input weights, ``(sum w^2)^2 / sum w^4``.
    """
    cell = data.isel(sweep_density=place_of(p, data.sweep_density))
    live = cell.sweep_live.isel(sweep_seed=int(cell.sweep_best)).values.astype(bool)
    if not live.any():
        raise Absent("the best network has no neuron in use")
    squares = cell.sweep_W_in.transpose("sweep_neuron", "sweep_feature").values[live] ** 2
    spread = squares.sum(axis=1) ** 2 / (squares**2).sum(axis=1)
    return squares.argmax(axis=1), spread >= SPREAD


def neurons(data: xr.Dataset) -> Figure:
    """Input weights of the best network at each density, monosemantic neurons first."""
    figure, axes = new_figure(1, data.sizes["sweep_density"], height=2.2)
    for i, ax in enumerate(axes[0]):
        W = np.abs(data.sweep_W_in.values[i]).T
        live = data.sweep_live.values[i, int(data.sweep_best[i])]
        W = W[live] / W[live].max(axis=1, keepdims=True)
        order = np.lexsort((W.argmax(axis=1), -(1 / W.sum(axis=1)).round(1)))
        image = ax.imshow(W[order].T, vmin=0, vmax=1, cmap="Greys", aspect="auto")
        ax.set_title(f"$p$ = {float(data.sweep_density[i]):g}")
        ax.set(xlim=(-0.5, live.size - 0.5), xlabel=f"{len(W)} of {live.size}\nneurons")
        ax.set(xticks=[], yticks=[])
    axes[0, 0].set_ylabel("feature, most\nimportant on top")
    figure.colorbar(image, ax=axes[0], label="|weight| /\nlargest of neuron", pad=0.01)
    sample_note(figure, f"best of {data.sizes['sweep_seed']} seeds at each density")
    return figure
