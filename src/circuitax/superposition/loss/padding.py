"""Sizes of compiled programs, rounded up so that models of similar sizes share one.

A feature that is never on, has no importance and no weights changes neither a loss nor any
gradient but its own, which is 0; the same holds for a hidden dimension without weights. So sizes
are filled up with them, and a sweep over sizes compiles a fraction of the programs.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from circuitax.kernel.weights import TiedWeights

# On the host or on a device.
Numbers = Array | np.ndarray


def padded_size(size: int) -> int:
    """The next compiled size: any up to 8, then four between n and 2n."""
    step = 2 ** max(0, (size - 1).bit_length() - 3)
    return -(-size // step) * step


class Padding(NamedTuple):
    """Sizes of a model, and the layout of its weights in the flat vectors of a minimiser."""

    n_hidden: int
    n_features: int

    @property
    def rows(self) -> int:
        """Hidden dimensions, padded."""
        return padded_size(self.n_hidden)

    @property
    def columns(self) -> int:
        """Features, padded."""
        return padded_size(self.n_features)

    def fill(self, numbers: Float[Numbers, "*batch n_features"]) -> np.ndarray:
        """Numbers of every feature, padded with 0; on the host."""
        return _filled(numbers, (self.columns,))

    def pack(self, weights: TiedWeights) -> np.ndarray:
        """The flat vectors of models with leading axes; on the host."""
        W = _filled(weights.W, (self.rows, self.columns))
        flat = W.reshape(*W.shape[:-2], self.rows * self.columns)
        return np.concatenate([flat, self.fill(weights.b)], axis=-1)

    def unpack(self, vectors: Float[np.ndarray, "*batch d"]) -> TiedWeights:
        """The models of `pack`, without padding."""
        W, b = _split(vectors, self.rows)
        n, m = self.n_features, self.n_hidden
        return TiedWeights(jax.device_put(W[..., :m, :n]), jax.device_put(b[..., :n]))


def unpacked(vectors: Float[Array, "*batch d"], rows: int) -> TiedWeights:
    """The models of flat vectors, with padding."""
    return TiedWeights(*_split(vectors, rows))


def _split(vectors: Any, rows: int) -> tuple[Any, Any]:
    columns = vectors.shape[-1] // (rows + 1)
    W = vectors[..., : rows * columns].reshape(*vectors.shape[:-1], rows, columns)
    return W, vectors[..., rows * columns :]


def _filled(array: Numbers, shape: tuple[int, ...]) -> np.ndarray:
    missing = [(0, n - have) for n, have in zip(shape, array.shape[-len(shape) :], strict=True)]
    return np.pad(np.asarray(array), [(0, 0)] * (array.ndim - len(shape)) + missing)
