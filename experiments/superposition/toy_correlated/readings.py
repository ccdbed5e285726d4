"""Correlated features prefer right angles, anticorrelated ones opposite directions."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line
from circuitax.figures.palette import COLOURS, DIVERGING
from circuitax.figures.style import PAGE, letter_panels, new_figure
from circuitax.records.sample import Absent, NotRun, Sample, best_of, mean_of, share_of
from circuitax.superposition.polytopes import angles, gaps
from experiments.superposition.shared.cell_readings import of_best, place_of
from experiments.superposition.shared.figure_polytopes import arrows

# A pair is collapsed when its members are at most this many degrees apart.
COLLAPSED_ANGLE = 20.0
NEAR = 10.0
# A feature of a lesser norm has no direction that means anything.
LEAST_NORM = 0.5
SIZES = (4, 6, 20)
ANGLES = {"correlated": 90, "anticorrelated": 180}  # of partners
# Least norm of a hexagon over its greatest; one that is less even misses by as much as one can.
EVEN_NORMS, NO_HEXAGON = 0.9, 180.0


def pair_angle(data: xr.Dataset, kind: str) -> Sample:
    """Share of seeds whose pairs have the published angle at all densities, and no lost feature."""
    _require(data)
    return share_of(_as_published(data, kind).all(axis=1))


def anticorrelated_share(data: xr.Dataset, density: float) -> Sample:
    """Share of networks at a density whose anticorrelated pairs are antipodal."""
    _require(data)
    place = place_of(density, data.anticorrelated_density)
    return share_of(_as_published(data, "anticorrelated")[:, place])


def best_pair(data: xr.Dataset, kind: str) -> Sample:
    """Greatest miss of the published angle in the networks of least loss, in degrees."""
    _require(data)
    return best_of(data[f"{kind}_loss"].values, _miss(data, kind), np.max)


def hexagon(data: xr.Dataset, density: float = 0.03) -> Sample:
    """The greatest miss of a gap from 60 degrees in the network of least loss of a density."""
    _require(data, density)
    cell = data.sel(crowded_density=density)
    W = cell.crowded_W.transpose("seed", "hidden", "crowded_feature").values
    norm, miss = np.linalg.norm(W, axis=1), [np.abs(gaps(one) - 60).max() for one in W]
    even = norm.min(axis=1) >= EVEN_NORMS * norm.max(axis=1)
    return best_of(cell.crowded_loss.values, np.where(even, miss, NO_HEXAGON))


def adjacent(data: xr.Dataset, density: float = 0.03) -> Sample:
    """The share of networks without a collapsed pair in which all partners are neighbours."""
    _require(data, density)
    W = data.crowded_W.sel(crowded_density=density).values
    pairs = [np.argsort(angles(one)) // 2 for one in W[(collapsed(W) == 0) & _all_there(W)]]
    if not pairs:
        raise Absent("every network has a collapsed pair")
    return share_of([(pair == np.roll(pair, 1)).sum() == 3 for pair in pairs])


def collapsed_pairs(data: xr.Dataset, density: float, count: int) -> Sample:
    """The share of networks of three pairs with a number of collapsed ones, and no lost feature."""
    _require(data, density)
    W = data.crowded_W.sel(crowded_density=density).values
    return share_of((collapsed(W) == count) & _all_there(W))


def collapse_rises(data: xr.Dataset) -> Sample:
    """Collapsed pairs at density 0.4 less those at 0.03."""
    _require(data, 0.03, 0.4)
    counts = collapsed(data.crowded_W.sel(crowded_density=[0.03, 0.4]).values)
    return mean_of(counts[:, 1] - counts[:, 0])


def basis(data: xr.Dataset) -> dict[str, Sample]:
    """Blocks of W^T W inside and between the two sets."""
    _require(data)
    W = data.basis_W.values
    gram = np.einsum("sdki,sdkj->sdij", W, W)
    n = data.sizes["basis_feature"] // 2
    inside = np.stack([gram[..., :n, :n], gram[..., n:, n:]], axis=2)
    off = inside[..., ~np.eye(n, dtype=bool)]
    misses = np.linalg.norm(inside - np.eye(n), axis=(-2, -1)) / np.sqrt(n)
    ratio = (off**2).mean(axis=(1, 2, 3)) / (gram[..., :n, n:] ** 2).mean(axis=(1, 2, 3))
    return {
        "correlated-local-bases": mean_of(misses.max(axis=2).mean(axis=1)),
        "correlated-across": mean_of(ratio),
    }


def pair_angles(W: np.ndarray) -> np.ndarray:
    """Angle in degrees between the members of every pair, ``[..., pair]``."""
    first, second = W[..., 0::2], W[..., 1::2]
    norm = np.linalg.norm(first, axis=-2) * np.linalg.norm(second, axis=-2)
    cosine = np.sum(first * second, axis=-2) / np.maximum(norm, 1e-12)
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def collapsed(W: np.ndarray) -> np.ndarray:
    """Number of pairs with a common direction, ``[...]``."""
    return (pair_angles(W) < COLLAPSED_ANGLE).sum(axis=-1)


def _as_published(data: xr.Dataset, kind: str) -> np.ndarray:
    """Whether networks of two pairs have the published angle, ``[seed, density]``."""
    right: np.ndarray = (_miss(data, kind) < NEAR) & _all_there(data[f"{kind}_W"].values)
    return right


def _miss(data: xr.Dataset, kind: str) -> np.ndarray:
    """The greatest difference of a pair's angle from the published one, ``[seed, density]``."""
    greatest: np.ndarray = np.abs(pair_angles(data[f"{kind}_W"].values) - ANGLES[kind]).max(axis=-1)
    return greatest


def _all_there(W: np.ndarray) -> np.ndarray:
    """Whether all features of a network are long enough to have a direction, ``[...]``."""
    there: np.ndarray = (np.linalg.norm(W, axis=-2) >= LEAST_NORM).all(axis=-1)
    return there


def _require(data: xr.Dataset, *densities: float) -> None:
    """Refuse runs of other sizes or densities than the published ones."""
    sizes = tuple(data.sizes[f"{name}_feature"] for name in ("correlated", "crowded", "basis"))
    if sizes != SIZES or not set(densities) <= set(data.crowded_density.values):
        raise NotRun("this run has other sizes or densities")
    if sum(arm["diverged"] for arm in data.attrs["members"].values()):
        raise Absent("a network diverged")


def pairs(data: xr.Dataset) -> Figure:
    """The best networks of two pairs as arrows, at the greatest density."""
    figure, axes = new_figure(1, 2, height=2.3)
    for ax, name in zip(axes[0], ANGLES, strict=True):
        _arrows(ax, of_best(data[f"{name}_W"], data[f"{name}_best"])[-1])
        p = data[f"{name}_density"].values[-1]
        ax.set_title(f"two {name} pairs\n$p$ = {p:g}, best of {data.sizes['seed']}", fontsize=7)
    letter_panels(axes[0])
    return figure


def collapse(data: xr.Dataset) -> Figure:
    """The best networks of three pairs over density as arrows."""
    p, best = data.crowded_density.values, of_best(data.crowded_W, data.crowded_best)
    figure, axes = new_figure(1, len(p), height=1.6)
    for ax, W, density in zip(axes[0, ::-1], best, p, strict=True):  # sparse to the right
        _arrows(ax, W)
        ax.set_title(f"$p$ = {density:g}", fontsize=7)
    figure.suptitle("best network of three correlated pairs (colours)", fontsize=8)
    return figure


def bases(data: xr.Dataset) -> Figure:
    """W^T W of the local bases, for the seed of lowest training loss at each density."""
    density = data.basis_density.values
    figure, axes = new_figure(1, len(density), width=min(PAGE, 3.25 * len(density)), height=2.4)
    n = data.sizes["basis_feature"] // 2
    for i, ax in enumerate(axes[0]):
        seed = int(np.nanargmin(data.basis_loss.values[:, i]))
        W = data.basis_W.values[seed, i]
        image = ax.imshow(W.T @ W, cmap=DIVERGING, vmin=-1, vmax=1, rasterized=True)
        reference_line(ax, x=n - 0.5, style="solid")
        reference_line(ax, y=n - 0.5, style="solid")
        ax.set(xticks=[0, n, 2 * n - 1], yticks=[0, n, 2 * n - 1], xlabel="feature")
        ax.set_title(f"two sets of {n} in {n} dimensions, $p$ = {density[i]:g}", fontsize=7)
    axes[0, 0].set_ylabel("feature")
    figure.colorbar(image, ax=axes, label=r"entry of $W^\top W$")
    return figure


def _arrows(ax: Axes, W: np.ndarray) -> None:
    """Columns of W; one colour for each pair, its second member lighter."""
    colours = [to_rgba(COLOURS[i // 2], 0.55 if i % 2 else 1.0) for i in range(W.shape[1])]
    arrows(ax, W, colours, linewidth=1.5, markersize=2.5)
    ax.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
