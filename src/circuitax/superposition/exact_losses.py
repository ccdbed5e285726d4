"""The exact expected loss of many networks at once, in programs shared by similar sizes.

A feature that is never on, has no importance and no weights changes neither a loss nor any
gradient but its own, which is 0; the same holds for a hidden dimension without weights. So sizes
are filled up with them, and a sweep over sizes compiles a fraction of the programs.
"""

from functools import partial
from importlib import metadata
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.expected_loss import ExpectedLoss, expected_loss

# Members advanced together: the smallest of these that holds all, or the largest.
SIZES = (2, 4, 8, 16, 32, 64, 128, 256)
# These older emitters of the CPU's compiler take half the time for a program of the same speed.
# jaxlib 0.12 has the newer ones only, and refuses the option.
_OLDER = tuple(int(part) for part in metadata.version("jaxlib").split(".")[:2]) < (0, 11)
OPTIONS: dict[str, bool | str] = {"xla_cpu_use_fusion_emitters": False} if _OLDER else {}


def batch_size(n_members: int) -> int:
    """The size of batches for so many members."""
    return next((size for size in SIZES if size >= n_members), SIZES[-1])


def batches(members: Int[np.ndarray, " member"], size: int) -> list[np.ndarray]:
    """Members in batches of one size, the last padded by repetition."""
    starts = range(0, len(members), size)
    return [np.resize(members[start : start + size], size) for start in starts]


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


# Cosine terms of a loss that is reported.
N_TERMS = 256


def exact_losses(
    weights: TiedWeights,
    density: Float[Numbers, "member n_features"],
    importance: Float[Numbers, "member n_features"],
) -> np.ndarray:
    """`expected_loss` of every member, summed over features, whatever the caller's precision."""
    # On the host: an array of the caller's precision cannot be widened where it is.
    given = (weights, density, importance)
    wide, *settings = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), given)
    with jax.enable_x64(True):
        return np.asarray(losses_with_errors(wide, *settings).value)


def losses_with_errors(
    weights: TiedWeights,
    density: Float[Numbers, "member n_features"],
    importance: Float[Numbers, "member n_features"],
    *,
    n_terms: int = N_TERMS,
) -> ExpectedLoss:
    """`expected_loss` of every member, in the caller's precision; on the host."""
    padding = Padding(*weights.W.shape[-2:])
    arrays = padding.pack(weights), padding.fill(density), padding.fill(importance)
    members = np.arange(len(arrays[0]))
    found = [
        _losses(*(array[at] for array in arrays), rows=padding.rows, n_terms=n_terms)
        for at in batches(members, batch_size(len(members)))
    ]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[: len(members)], *found)


@partial(jax.jit, static_argnames=("rows", "n_terms"), compiler_options=OPTIONS)
def _losses(
    vectors: Float[Array, "member d"],
    density: Float[Array, "member n_features"],
    importance: Float[Array, "member n_features"],
    *,
    rows: int,
    n_terms: int,
) -> ExpectedLoss:
    loss = partial(expected_loss, n_terms=n_terms)
    return jax.vmap(loss)(unpacked(vectors, rows), density, importance)
