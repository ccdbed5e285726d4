"""Two sets of features: cosines inside and across them. It uses no JAX, as records do not."""

import numpy as np

SIZE = 3  # features of a set
ANTIPODE, UPRIGHT = -0.9, 0.3  # cosines of an octahedron


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


def farthest(W: np.ndarray) -> np.ndarray:
    """Cosine to the farthest feature of the other set, mean of features, ``[...]``."""
    cosine = across(W)
    return 0.5 * (cosine.min(axis=-1).mean(axis=-1) + cosine.min(axis=-2).mean(axis=-1))


def in_antipodal_pairs(W: np.ndarray) -> np.ndarray:
    """Whether each feature has an antipode in either set and is upright on the rest, ``[...]``.

    Two antipodes of one feature would not be upright on each other.
    """
    cosine = feature_cosines(W)
    rest = np.where((cosine <= ANTIPODE) | np.eye(2 * SIZE, dtype=bool), 0, np.abs(cosine))
    found: np.ndarray = (cosine.min(axis=-1) <= ANTIPODE).all(-1)
    return found & (rest.max(axis=(-1, -2)) <= UPRIGHT)


def is_octahedron(W: np.ndarray) -> np.ndarray:
    """Whether each feature has an antipode in the other set and is upright on the rest, ``[...]``.

    Antipodes of a set's three features, all in the other set, are all of that set.
    """
    return in_antipodal_pairs(W) & (across(W).min(axis=-1) <= ANTIPODE).all(-1)
