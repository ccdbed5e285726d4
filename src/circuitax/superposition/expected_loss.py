"""Exact expected loss of tied models under independent sparse features.

Output i sees a scalar, ``t = b_i + s`` with ``s = sum_{j != i} G_ij x_j`` and ``G = W^T W``, so

    E loss_i = I_i E[ (1 - p_i) off_i(t) + p_i on_i(t) ]    (`output_error`)

is one integral against the law of s, whose characteristic function is the product
``Phi(w) = prod_j (q_j + p_j phi(w G_ij))``. The part of that law with at most one active feature
is integrated in closed form. The rest has a continuous density, and a cosine series converges on
it like ``k^-5``. Cost ``O(n_features^2 n_terms)``; a pattern is never enumerated.

Of many networks at once: a feature that is never on, has no importance and no weights changes
neither a loss nor any gradient but its own, which is 0; the same holds for a hidden dimension
without weights. So sizes are filled up with them, and a sweep over sizes compiles a fraction of the
programs.

In closed form there are the losses of four hand-made configurations, whose weights are 0 or ±1 and
whose norms are not tuned, with n = 2 features in m = 1 dimension or 3 in 2. All features have
density p; the last ("extra") one has importance r, the others 1. Summed over features:

    ignore_first    p/3 - p^2/4          n = 2 only below; leaves out a feature of importance 1
    ignore_last     r (p/3 - p^2/4)      leaves out the last feature, whose bias is p/2
    pair_first      p^2/3                first two antipodal, last one dedicated (n = 3)
    pair_last       (1 + r) p^2/6        last one antipodal to another

The least of the four is an upper bound of the true optimum (`optimum`), which also tunes norms and
biases and makes two features antipodal before these curves cross: at r = 1 already at p = 0.65.
"""

from collections.abc import Callable
from enum import IntEnum, StrEnum
from functools import partial
from importlib import metadata
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from circuitax.display.tables import documented
from circuitax.kernel.checks import check_range, choice, whole
from circuitax.kernel.compiled import compiled
from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.output_error import Count, output_error, partial_error


class Convention(StrEnum):
    """Sum of the loss over features (toy-models paper) or mean over them (its code)."""

    sum = "sum"
    mean = "mean"


# Outputs are treated together while their characteristic functions fit this many numbers.
TOGETHER = 2**21


@documented
class ExpectedLoss(NamedTuple):
    """An expected loss with an estimate of its error.

    Attributes:
        value: The loss.
        error: Very conservative estimate of its truncation error.
    """

    value: Float[Array, "*batch"]
    error: Float[Array, "*batch"]


def expected_loss(
    weights: TiedWeights,
    density: Float[Array, " n_features"],
    importance: Float[Array, " n_features"],
    *,
    n_terms: int = 256,
    convention: Convention | str = Convention.sum,
) -> ExpectedLoss:
    """``E_x sum_i I_i (x_i - relu(W^T W x + b)_i)^2``, with ``x_i`` uniform on [0, 1] or zero.

    The loss is differentiable in weights, density and importance. The function takes one model; use
    ``jax.vmap`` for several. Call it under ``jax.enable_x64`` with float64 arrays: in float32,
    rounding limits the accuracy to about 1e-6.

    Args:
        weights: ``W [n_hidden, n_features]`` and ``b [n_features]``.
        density: P(feature is on), in [0, 1].
        importance: I_i, not negative.
        n_terms: Terms of the cosine series, at least 1; about 64 for three features. Up to two
            features the closed form is exact and 0 is allowed too.
        convention: ``sum`` or ``mean`` over the features.

    Returns:
        The value, and as error the sum of the magnitudes of the last half of the terms: an upper
        bound of the tail when terms fall at least like ``k^-2``, ten to some thousand times too
        large from 16 terms on.

    Raises:
        ValueError: If a weight is not finite or the shapes do not fit, ``n_terms`` is too small, a
            density is outside [0, 1], an importance is negative, or ``convention`` is neither
            ``sum`` nor ``mean``.

    Source: toy-models paper, "Demonstrating Superposition"; erratum E17 of docs/errata.md for the
        two conventions.
    """
    if not isinstance(weights, TiedWeights):
        raise ValueError(f"weights is a {type(weights).__name__}, must be TiedWeights(W, b)")
    W, b = weights
    check_range("weights.W", W, "(-inf, inf)")
    check_range("weights.b", b, "(-inf, inf)")
    if jnp.ndim(W) != 2 or jnp.shape(b) != jnp.shape(W)[1:]:
        raise ValueError(
            f"weights.W has shape {jnp.shape(W)} and weights.b {jnp.shape(b)}, must be [n_hidden, "
            "n_features] and [n_features]: vmap over models"
        )
    n_features = weights.W.shape[1]
    n_terms = whole("n_terms", n_terms)
    convention = choice("convention", Convention, convention)
    check_range("density", density, "[0, 1]")
    check_range("importance", importance, "[0, inf)")
    for name, given in (("density", density), ("importance", importance)):
        if jnp.shape(given) != (n_features,):
            raise ValueError(f"{name} has shape {jnp.shape(given)}, must be ({n_features},)")
    density, importance = jnp.asarray(density), jnp.asarray(importance)
    if n_terms < (n_features > 2):
        raise ValueError(
            f"n_terms={n_terms} must be at least 1 for n_features={n_features}: only up to two "
            "features (and then from 0) is the closed form exact"
        )
    return _expected_loss(weights, density, importance, n_terms, convention)


@compiled("n_terms", "convention")
def _expected_loss(
    weights: TiedWeights,
    density: Float[Array, " n_features"],
    importance: Float[Array, " n_features"],
    n_terms: int,
    convention: Convention,
) -> ExpectedLoss:
    gram = weights.W.T @ weights.W

    def one(row: Array, bias: Array, own: Array) -> tuple[Array, Array]:
        return output_error(row, bias, own, density, n_terms)

    value, error = _of_outputs(one, gram, weights.b, n_terms)
    scale = 1 / gram.shape[0] if convention is Convention.mean else 1.0
    return ExpectedLoss(scale * (importance @ value), scale * (importance @ error))


def partial_loss(
    weights: TiedWeights,
    density: Float[Array, " n_features"],
    importance: Float[Array, " n_features"],
    *,
    n_terms: Count,
    block: int,
    first: Count,
) -> Float[Array, ""]:
    """Contribution of some cosine terms to the sum loss: one program serves any number of terms.

    The parts with ``first = 0, block, 2 block, ...`` below ``n_terms`` add up to `expected_loss`
    with ``n_terms``. The first one holds all that is no cosine term.
    """
    gram = weights.W.T @ weights.W

    def one(row: Array, bias: Array, own: Array) -> Array:
        return partial_error(row, bias, own, density, n_terms, block, first)[0]

    return importance @ _of_outputs(one, gram, weights.b, block)


def _of_outputs(
    one: Callable[..., PyTree],
    gram: Float[Array, "n_features n_features"],
    bias: Float[Array, " n_features"],
    n_terms: int,
) -> PyTree:
    """A function of couplings, bias and index of every output, in chunks that fit into memory."""
    n_features = gram.shape[0]
    outputs = (gram, bias, jnp.eye(n_features, dtype=bool))
    chunk = max(1, TOGETHER // max(1, n_features * n_terms))
    if chunk >= n_features:
        return jax.vmap(one)(*outputs)
    # Recomputed in the backward pass: memory stays that of one chunk.
    return jax.lax.map(jax.checkpoint(lambda output: one(*output)), outputs, batch_size=chunk)


def linear_loss(
    weights: TiedWeights,
    density: Float[Array, " n_features"],
    importance: Float[Array, " n_features"],
) -> Float[Array, ""]:
    """``E_x sum_i I_i (x_i - (W^T W x + b)_i)^2`` for independent sparse features.

    ``sum_i I_i [ sum_j R_ij^2 v_j + (R mu - b)_i^2 ]`` with ``R = 1 - W^T W``, the mean
    ``mu = p / 2`` and the variance ``v = p / 3 - p^2 / 4`` of a feature that is zero with
    probability ``1 - p`` and else uniform on [0, 1].

    Source: toy-models paper, "Demonstrating Superposition" (linear model); its loss is that of
        principal components.
    """
    missing = jnp.eye(density.shape[0], dtype=weights.W.dtype) - weights.W.T @ weights.W
    variance = density / 3 - density**2 / 4
    offset = missing @ (density / 2) - weights.b
    return importance @ (missing**2 @ variance + offset**2)


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


class Configuration(IntEnum):
    """The paper's configurations, in the order of `configuration_losses`."""

    ignore_first = 0
    ignore_last = 1
    pair_first = 2
    pair_last = 3


def configuration_losses(
    density: Float[Array, "*shape"], importance: Float[Array, "*shape"], n_features: int
) -> Float[Array, "*shape 4"]:
    """Sum losses of the four configurations, indexed by `Configuration`; absent ones are infinite.

    Source: toy-models paper, "Superposition as a Phase Change", and its derivation notebook.
    """
    p, r = density, importance
    ignored = p / 3 - p**2 / 4
    pair_first = p**2 / 3 if n_features == 3 else jnp.full_like(p, jnp.inf)
    return jnp.stack([ignored, r * ignored, pair_first, (1 + r) * p**2 / 6], axis=-1)


def best_configuration(
    density: Float[Array, "*shape"], importance: Float[Array, "*shape"], n_features: int
) -> tuple[Int[Array, "*shape"], Float[Array, "*shape"]]:
    """The configuration of least loss, as a `Configuration` value, and that loss."""
    losses = configuration_losses(density, importance, n_features)
    return jnp.argmin(losses, axis=-1), jnp.min(losses, axis=-1)
