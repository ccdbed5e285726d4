"""Detectors of heads by attention on a mask: previous token, duplicates, prefixes, or your own.

A mask is a boolean ``[dest, src]`` table, made from positions or tokens; the score of a head is the
attention it puts on the mask. Nothing assumes a repeat of fixed period: the masks compare tokens.
The functions take one sequence; vmap over texts, and average with ``n_dest`` as weights.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from circuitax.kernel.checks import check_range
from circuitax.kernel.linalg import safe_divide


class Detection(NamedTuple):
    """Mean attention on a mask, and its value for uniform attention.

    Attributes:
        score: Mean over destinations with a marked source of ``Σ_src A · mask``, in [0, 1].
        null: The score of uniform attention over the sources that a destination may read.
        n_dest: Destinations that have a marked source; at 0 the score and its null are 0.
    """

    score: Float[Array, "*heads"]
    null: Float[Array, ""]
    n_dest: Int[Array, ""]


def detect(
    pattern: Float[Array, "*heads dest src"],
    mask: Bool[Array, "dest src"],
    *,
    causal: bool = True,
) -> Detection:
    """The mean attention on a mask, for every head at once.

    ``score = mean over {t : mask_t ≠ 0} of Σ_s A_ts mask_ts``.

    Source: induction-heads paper, "prefix matching" (mean attention to the marked positions).
    Differs: a destination without any marked source is left out of the mean.
    """
    allowed = jnp.tril(jnp.ones_like(mask)) if causal else jnp.ones_like(mask)
    marked = mask & allowed
    counts = marked.any(axis=-1)
    n_dest = counts.sum()
    weight = jnp.asarray(n_dest, pattern.dtype)
    on_mask = jnp.einsum("...ts,ts->...", pattern, marked.astype(pattern.dtype))
    share = marked.sum(axis=-1) / allowed.sum(axis=-1)
    uniform = jnp.sum(share.astype(pattern.dtype))
    score = safe_divide(on_mask, jnp.broadcast_to(weight, on_mask.shape))
    return Detection(score, safe_divide(uniform, weight), n_dest)


def previous_mask(tokens: Int[Array, " n_ctx"], offset: int = 1) -> Bool[Array, "n_ctx n_ctx"]:
    """The position ``offset`` steps back; 1 is the previous token, 0 the present one."""
    n_ctx = tokens.shape[0]
    if not 0 <= offset < n_ctx:
        raise ValueError(f"offset={offset} must be from 0 to {n_ctx - 1}")
    return jnp.eye(n_ctx, k=-offset, dtype=bool)


def duplicate_mask(tokens: Int[Array, " n_ctx"]) -> Bool[Array, "n_ctx n_ctx"]:
    """Earlier positions with the same token: ``x_s = x_t``, s < t."""
    return jnp.tril(_same(tokens), k=-1)


def prefix_mask(tokens: Int[Array, " n_ctx"]) -> Bool[Array, "n_ctx n_ctx"]:
    """Positions that follow an earlier occurrence of the present token: ``x_{s-1} = x_t``, s <= t.

    Source: induction-heads paper, prefix matching, as corrected on 2022-09-20 ("followed by").
    """
    return jnp.pad(duplicate_mask(tokens)[:, :-1], ((0, 0), (1, 0)))


def induction_mask(tokens: Int[Array, " n_ctx"]) -> Bool[Array, "n_ctx n_ctx"]:
    """Prefix matches that hold the true next token: also ``x_s = x_{t+1}``."""
    right_guess = tokens[None, :] == jnp.roll(tokens, -1)[:, None]
    known = jnp.arange(tokens.shape[0]) < tokens.shape[0] - 1
    return prefix_mask(tokens) & right_guess & known[:, None]


class ShuffledNull(NamedTuple):
    """Mean and standard deviation of scores when tokens are shuffled under fixed patterns."""

    mean: Float[Array, "*heads"]
    std: Float[Array, "*heads"]


def shuffled_null(
    key: Key[Array, ""],
    pattern: Float[Array, "*heads dest src"],
    tokens: Int[Array, " n_ctx"],
    mask_of: Callable[[Int[Array, " n_ctx"]], Bool[Array, "n_ctx n_ctx"]],
    *,
    n_shuffles: int = 64,
    causal: bool = True,
) -> ShuffledNull:
    """Null distribution of scores on token masks: patterns fixed, tokens shuffled."""
    check_range("n_shuffles", n_shuffles, "[2, inf)")

    def one(key: Key[Array, ""]) -> Float[Array, "*heads"]:
        return detect(pattern, mask_of(jax.random.permutation(key, tokens)), causal=causal).score

    scores = jax.vmap(one)(jax.random.split(key, n_shuffles))
    return ShuffledNull(scores.mean(axis=0), scores.std(axis=0, ddof=1))


def _same(tokens: Int[Array, " n_ctx"]) -> Bool[Array, "n_ctx n_ctx"]:
    return tokens[:, None] == tokens[None, :]
