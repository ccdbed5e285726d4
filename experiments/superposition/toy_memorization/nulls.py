"""Altered data of the nulls of the claims on memorisation: other polygons, curves and lengths."""

import numpy as np
import xarray as xr

from experiments.superposition.shared.random_weights import dimensionalities, same_norms

LEFT = 0.1  # of the bump, in a world in which decay does not remove it
# Shares of the longest: all samples have a direction, and features above half are represented.
LENGTHS, NORMS = (0.1, 1.0), (0.52, 1.0)


def turned(data: xr.Dataset, points: list[int], rng: np.random.Generator) -> xr.Dataset:
    """The data where all features at some T have their norms and lie anywhere."""
    W = data.W.transpose("points", "dataset", "hidden", "feature").copy()
    dimensions = data.feature_dimension.copy()
    for T in points:
        anywhere = same_norms(rng, W.sel(points=T).values)
        W.loc[{"points": T}] = anywhere
        dimensions.loc[{"points": T}] = xr.DataArray(
            dimensionalities(anywhere), dims=("dataset", "feature")
        )
    return data.assign(W=W, feature_dimension=dimensions)


def polygons(
    data: xr.Dataset, corners: int, points: int, n_longest: int, alone: bool
) -> xr.Dataset:
    """The data where the longest features at one T are a regular polygon in each set.

    They are as long as ``n_longest`` are in the mean; with ``alone`` no other has weights there.
    """
    W = data.W.sel(points=points).transpose("dataset", "hidden", "feature").values.copy()
    norm = np.linalg.norm(W, axis=1)
    longest = np.argsort(-norm, axis=-1)[:, None, :corners]
    radius = np.sort(norm)[:, None, -n_longest:].mean(axis=-1, keepdims=True)
    angle = 2 * np.pi * np.arange(corners) / corners
    W = np.zeros_like(W) if alone else W
    np.put_along_axis(W, longest, radius * np.stack([np.cos(angle), np.sin(angle)]), axis=-1)
    changed = xr.DataArray(dimensionalities(W), dims=("dataset", "feature"))
    weights = xr.DataArray(W, dims=("dataset", "hidden", "feature"))
    other = data.points != points
    return data.assign(
        feature_dimension=data.feature_dimension.where(other, changed),
        W=data.W.where(other, weights),
    )


def of_lengths(vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Vectors ``[set, 2, T]`` in their directions with lengths drawn from a tenth to 1."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(length, np.finfo(float).tiny)
    return np.asarray(unit * rng.uniform(*LENGTHS, length.shape))


def of_norms(W: np.ndarray, kept: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Weights ``[set, 2, n]`` whose represented features have other norms and their directions.

    The longest of a set stays, so that the drawn ones are represented and the others are not.
    """
    norm = np.linalg.norm(W, axis=1, keepdims=True)
    top = norm.max(axis=-1, keepdims=True)
    drawn = kept[:, None] & (norm < top)
    length = np.where(drawn, top * rng.uniform(*NORMS, norm.shape), norm)
    changed: np.ndarray = W * length / np.maximum(norm, np.finfo(float).tiny)
    return changed


def tenths(data: xr.Dataset, rngs: list[np.random.Generator]) -> list[xr.Dataset]:
    """The data where the last decay leaves a tenth of the bump, with its sets drawn anew."""
    weak, n = data.test_loss.isel(decay=0), data.sizes["dataset"]
    left = xr.where(weak > 1, 1 + LEFT * (weak - 1), weak)
    last = data.decay == data.decay[-1]
    changed = data[["test_loss"]].assign(test_loss=xr.where(last, left, data.test_loss))
    return [changed.isel(dataset=rng.integers(n, size=n)) for rng in rngs]


def monotone(data: xr.Dataset, falls: bool) -> xr.Dataset:
    """Test losses and norms of each set in order, so that no curve has a peak between its ends."""
    changed = {}
    for name in ("test_loss", "W_norm", "b_norm"):
        rows = np.sort(data[name].transpose(..., "points").values, axis=-1)
        dims = data[name].transpose(..., "points").dims
        changed[name] = (dims, rows[..., ::-1] if falls else rows)
    return data.assign(changed)


def rolled(data: xr.Dataset, place: int) -> xr.Dataset:
    """Test losses and norms between both ends of T, moved so that their peaks lie at one T."""
    at = int(np.flatnonzero(data.points.values == place)[0]) - 1
    changed = {}
    for name in ("test_loss", "W_norm", "b_norm"):
        curves = data[name].transpose("decay", "dataset", "points").copy()
        inner = curves.values[..., 1:-1]
        peak = int(inner[0].mean(axis=0).argmax())
        curves.values[..., 1:-1] = np.roll(inner, at - peak, axis=-1)
        changed[name] = curves
    return data.assign(changed)
