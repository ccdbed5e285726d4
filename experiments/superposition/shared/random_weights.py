"""Weights as they are before any training, and dimensionalities of features; without JAX."""

import numpy as np
import xarray as xr


def normal_weights(rng: np.random.Generator, std: float, *shape: int) -> np.ndarray:
    """Independent normal entries ``[..., n_hidden, n_features]``, as weights start with."""
    return std * rng.standard_normal(shape)


def dimensionalities(W: np.ndarray) -> np.ndarray:
    """Dimensionality of every feature, ``|W_i|^4 / sum_j (W_i . W_j)^2``, ``[..., n_features]``.

    Args:
        W: ``[..., n_hidden, n_features]``; a feature without a direction has 0.

    Source: toy-models paper, feature dimensionality, multiplied by ``|W_i|^2`` above and below.
    """
    gram = np.swapaxes(W, -1, -2) @ W
    fourth = np.einsum("...ii->...i", gram) ** 2
    shared: np.ndarray = fourth / np.maximum((gram**2).sum(axis=-1), np.finfo(float).tiny)
    return shared


def at_start(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """As many networks at their start, where biases are 0."""
    W = normal_weights(rng, float(data.attrs["init_std"]), *data.W.shape)
    return data.assign(W=data.W.copy(data=W), b=xr.zeros_like(data.b))
