"""Dictionary learning as a training problem: sparse autoencoders on vectors of known law.

Agreement of what is learned with the truth takes one dictionary, with one direction in each row;
use ``jax.vmap`` for several. A map ``W [d_in, d_out]`` in row form takes feature i to the row W_i.
Its true subcomponents are ``e_i ⊗ W_i``. A learned one is ``V_c ⊗ U_c``: it reads along V_c and
writes along U_c. For a map whose outputs are the features (a decoder), swap the two and transpose
W.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.data.synthetic import paired_features
from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import at_index, derive, uniforms
from circuitax.models.autoencoder import Autoencoder, Sparsity


class DictionaryHyper(NamedTuple):
    """Hyperparameters that may differ between members of one compiled ensemble.

    Attributes:
        directions: The true dictionary: h is the sum of features times their rows.
        density: p of every feature, in [0, 1].
        together: P(a feature is on, given that its partner is); see `data.paired`.
        strength: k for TopK, the weight of the penalty otherwise.
    """

    directions: Float[Array, "*member n_true d_in"]
    density: Float[Array, "*member"]
    together: Float[Array, "*member"]
    strength: Float[Array, "*member"]


class PairDraws(NamedTuple):
    """Uniforms of one batch, shared by members of any law."""

    pair: Float[Array, "batch n_pairs"]
    value: Float[Array, "batch n_true"]


@dataclass(frozen=True)
class DictionaryLearning:
    """A sparse autoencoder of ``h = sum_i x_i d_i``: its reconstruction from sparse codes.

    Attributes:
        autoencoder: The module.
        n_true: True features, at least 1.
        batch_size: Fresh samples in each step, at least 1.

    Source: Bricken et al. 2023, "Towards Monosemanticity"; other sources at `Autoencoder`.
    """

    autoencoder: Autoencoder
    n_true: int
    batch_size: int = 256

    def __post_init__(self) -> None:
        for field in ("n_true", "batch_size"):
            check_range(field, getattr(self, field), "[1, inf)")

    def init(self, key: Key[Array, ""], hyper: DictionaryHyper) -> PyTree:
        """Random directions; the encoder is their transpose."""
        h = jnp.zeros((1, self.autoencoder.d_in))
        return self.autoencoder.init(key, h, jnp.ones(()))["params"]

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> PairDraws:
        """Uniforms of one step."""
        return draw_pairs(at_index(key, step), self.batch_size, self.n_true)

    def loss(self, params: PyTree, batch: PairDraws, hyper: DictionaryHyper) -> Float[Array, ""]:
        """Squared error plus the sparsity penalty."""
        h = hidden_vectors(batch, hyper)
        return reconstruction_loss(self.autoencoder, params, h, hyper.strength)


def reconstruction_loss(
    autoencoder: Autoencoder,
    params: PyTree,
    h: Float[Array, "batch d_in"],
    strength: Float[Array, ""],
) -> Float[Array, ""]:
    """``|h - h'|^2`` plus the sparsity penalty, the mean over samples; see `DictionaryLearning`."""
    variables = {"params": params}
    coded: Any = autoencoder.apply(variables, h, strength, method="encode")
    if autoencoder.kind is Sparsity.matryoshka:
        back = jnp.asarray(autoencoder.apply(variables, coded.codes, method="prefixes"))
    else:
        back = jnp.asarray(autoencoder.apply(variables, coded.codes, method="decode"))[None]
    error = jnp.sum((back - h[None]) ** 2, axis=2)
    return jnp.mean(error) + jnp.mean(coded.cost)


# One program for each size, where eager steps take a dozen.
@partial(jax.jit, static_argnums=(1, 2), inline=True)
def draw_pairs(key: Key[Array, ""], batch: int, n_true: int) -> PairDraws:
    """Uniforms for ``batch`` samples of ``n_true`` features in pairs."""
    n_pairs = (n_true + 1) // 2
    return PairDraws(
        uniforms(derive(key, "pairs"), (batch, n_pairs)),
        uniforms(derive(key, "values"), (batch, n_true)),
    )


def hidden_vectors(draws: PairDraws, hyper: DictionaryHyper) -> Float[Array, "batch d_in"]:
    """``h = x D`` of every sample."""
    return paired_features(*draws, hyper.density, hyper.together) @ hyper.directions


def cross_cosines(
    truth: Float[Array, "n_true d"], learned: Float[Array, "width d"]
) -> Float[Array, "n_true width"]:
    """Cosine of every true direction with every learned one; 0 where either is zero."""
    return _unit(truth) @ _unit(learned).T


def mean_max_cosine(
    truth: Float[Array, "n_true d"], learned: Float[Array, "width d"]
) -> Float[Array, ""]:
    """The mean over true directions of the best cosine with a learned one; 1 for full recovery.

    Source: Sharkey, Braun and Millidge 2022 (MMCS); SPD, arXiv 2506.20790.
    """
    return jnp.mean(jnp.max(cross_cosines(truth, learned), axis=1))


def hedging(truth: Float[Array, "n_true d"], learned: Float[Array, "width d"]) -> Float[Array, ""]:
    """Hedging: the admixture of other true directions in learned ones; 0 if each is pure.

    Source: Chanin et al. 2025, arXiv 2505.11756 (feature hedging: a dictionary narrower than the
        truth merges correlated features).
    Differs: the paper compares encoder and decoder directions with all true features; this is one
        number, and positive when features are merged with equal signs.
    """
    found = cross_cosines(truth, learned).T
    own = jnp.argmax(found, axis=1)
    between = cross_cosines(truth, truth)[own]
    best = jnp.take_along_axis(found, own[:, None], axis=1)
    other = found - best * between
    return jnp.mean(
        jnp.max(jnp.where(jnp.arange(len(truth))[None] == own[:, None], -1, other), axis=1)
    )


def _unit(rows: Float[Array, "n d"]) -> Float[Array, "n d"]:
    squares = jnp.sum(rows**2, axis=1, keepdims=True)
    return jnp.where(squares > 0, rows / jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0)


class RowMatch(NamedTuple):
    """For every true row, scores of its best subcomponent.

    Attributes:
        norm_ratio: Norm of the subcomponent's row over that of the true row.
    """

    cosine: Float[Array, " d_in"]
    norm_ratio: Float[Array, " d_in"]


def row_match(
    truth: Float[Array, "d_in d_out"],
    V: Float[Array, "n_components d_in"],
    U: Float[Array, "n_components d_out"],
) -> RowMatch:
    """Each true row W_i against row i of every subcomponent, ``V_ci U_c``: the papers' scores.

    Source: Braun et al. 2025 (APD), arXiv 2501.14926; SPD, arXiv 2506.20790.
    """
    signed = jnp.sign(V).T * cross_cosines(truth, U)
    best = jnp.argmax(signed, axis=1)
    rows = jnp.arange(truth.shape[0])
    size = jnp.abs(V[best, rows]) * jnp.linalg.norm(U[best], axis=1)
    return RowMatch(signed[rows, best], size / jnp.linalg.norm(truth, axis=1))


def rank_one_cosines(
    truth: Float[Array, "d_in d_out"],
    V: Float[Array, "n_components d_in"],
    U: Float[Array, "n_components d_out"],
) -> Float[Array, "d_in n_components"]:
    """Cosine between each true subcomponent ``e_i ⊗ W_i`` and each learned one, as matrices."""
    reads = cross_cosines(jnp.eye(truth.shape[0], dtype=V.dtype), V)
    return reads * cross_cosines(truth, U)


def one_to_one(important: Float[Array, "n_inputs n_components"]) -> Float[Array, ""]:
    """Share of inputs that turn on exactly one subcomponent, shared with no other input.

    Source: SPD, arXiv 2506.20790, figures of causal importances with one active feature each.
    """
    alone = jnp.sum(important, axis=1) == 1
    private = jnp.sum(important, axis=0) == 1
    return jnp.mean(alone & jnp.any((important > 0) & private[None], axis=1))
