"""Rounding errors in the path ledger, covered by its bounds.

A sum of n products in float64, in whatever order, misses by at most ``n u / (1 - n u)`` times the
sum of the absolute values, with ``u = 2^-53``. `lost` is twice that: the other half is for the
rounding of the error terms themselves, which are sums and products of positive numbers. What
underflows misses by less than `FLOOR` in numbers of about 1, to which a search scales its model.
"""

import numpy as np
from jaxtyping import Float

FLOOR = 1e-300
# What is not finite is named in one line (`require_finite`), without NumPy's warnings before it.
overflow_is_refused = np.errstate(over="ignore", invalid="ignore")
# Largest entries between 2^-100 and 2^100 are left as they are.
_WIDE = 100


def lost(n: int) -> float:
    """Rounding error of a sum of n products, relative to the sum of the absolute values."""
    return (n + 8) * 2.0**-52


def floor(*sizes: np.ndarray | np.floating) -> Float[np.ndarray, "*any"]:
    """Underflow error of a product: 0 where a factor is 0."""
    positive = np.broadcast_arrays(*(np.asarray(size) > 0 for size in sizes))
    return np.where(np.all(positive, axis=0), FLOOR, 0.0)


def norm(x: np.ndarray, axes: int | tuple[int, ...] = -1) -> np.ndarray:
    """Euclidean or Frobenius norms along some axes, of entries of any size."""
    exponent = np.frexp(np.abs(x).max(axis=axes, keepdims=True, initial=0.0))[1]
    scaled = np.ldexp(x, -exponent)
    return np.asarray(np.ldexp(np.sqrt((scaled**2).sum(axis=axes)), exponent.squeeze(axes)))


def spectral_norm(W: Float[np.ndarray, "*any n m"]) -> Float[np.ndarray, "*any"]:
    """Upper bounds on the largest singular values, from the smaller of both Gram matrices."""
    exponent = np.frexp(np.abs(W).max(axis=(-2, -1), keepdims=True, initial=0.0))[1]
    scaled = np.ldexp(W, -exponent)
    if W.shape[-1] > W.shape[-2]:
        scaled = np.swapaxes(scaled, -1, -2)
    gram = np.swapaxes(scaled, -1, -2) @ scaled
    square = np.linalg.eigvalsh(gram)[..., -1]
    # The trace bounds every norm of a Gram matrix, and so what its sums and eigenvalues lose.
    trace = np.trace(gram, axis1=-2, axis2=-1)
    return np.ldexp(np.sqrt(square + lost(sum(W.shape[-2:]) * 8) * trace), exponent[..., 0, 0])


def exponent_of(*arrays: np.ndarray) -> int:
    """Exponent of the power of two that scales the largest entry to about 1; 0 if it nearly is."""
    largest = max((float(np.abs(x).max(initial=0.0)) for x in arrays), default=0.0)
    exponent = int(np.frexp(largest)[1])
    return 0 if abs(exponent) <= _WIDE else exponent


def require_finite(what: str, *arrays: np.ndarray) -> None:
    """Refuse infinite and NaN: comparisons with NaN are false, and a search would drop such paths."""
    if not all(np.isfinite(x).all() for x in arrays):
        raise ValueError(f"{what} must be finite; a path ledger is no proof otherwise")
