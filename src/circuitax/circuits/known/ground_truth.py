"""Hand-written models with known circuits: ground truth for detectors and searches.

Each is a `Model` with scores so large that attention which should be all or nothing is so up to
rounding.

Sources (docs/bibliography.md): S0 is "Some Structures in Transformer Architectures" and S4 the
notes on the framework paper. E11 is an erratum of the sources (docs/errata.md).
"""

import math
from collections.abc import Hashable, Iterable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from circuitax.kernel.model import Model
from circuitax.kernel.positions import Positions
from circuitax.kernel.weights import HeadStack

_SHARP = 60.0  # a score difference whose softmax is one-hot in float32


def induction_model(
    key: Key[Array, ""],
    d_vocab: int,
    n_ctx: int,
    *,
    n_distractors: int = 3,
    size: float = 0.1,
    raise_logit: float = 8.0,
) -> Model:
    """Induction by hand: head 0.0 attends to the previous token, head 1.0 completes the match.

    Source: framework paper, "how induction heads work" (K-composition with a previous-token head).
    """
    V, n = d_vocab, n_ctx
    token, place = slice(0, V), slice(V, V + n)
    marker, answer = slice(V + n, 2 * V + n), slice(2 * V + n, 3 * V + n)
    d, k = 3 * V + n, max(V, n)
    zero = jnp.zeros((d, k))
    eye, step = jnp.eye(V), jnp.eye(n, k=-1)
    read_token = zero.at[token, :V].set(eye)
    previous = {
        "W_Q": zero.at[place, :n].set(_SHARP * step),  # position t asks for t - 1
        "W_K": zero.at[place, :n].set(jnp.eye(n)),
        "W_V": read_token,
        "W_O": zero.at[marker, :V].set(eye).T,
    }
    induction = {
        "W_Q": _SHARP * read_token,
        "W_K": zero.at[marker, :V].set(eye),
        "W_V": read_token,
        "W_O": raise_logit * zero.at[answer, :V].set(eye).T,
    }
    random = jax.random.normal(key, (4, 2, n_distractors, d, k)) * size / jnp.sqrt(d)

    def stack(name: str, index: int) -> Array:
        noise = random[index] if name != "W_O" else jnp.swapaxes(random[index], -1, -2)
        if name in ("W_Q", "W_K"):
            noise = noise * 10
        known = jnp.stack([previous[name], induction[name]])
        return jnp.concatenate([known[:, None], noise], axis=1)

    heads = HeadStack(*(stack(name, i) for i, name in enumerate(("W_Q", "W_K", "W_V", "W_O"))))
    return Model.of(
        W_E=jnp.zeros((V, d)).at[:, token].set(eye),
        W_U=jnp.zeros((d, V)).at[answer].set(eye),
        attention=heads,
        W_pos=jnp.zeros((n, d)).at[:, place].set(jnp.eye(n)),
        positions=Positions.learned,
        score_scale=1.0,
    )


def skip_trigram_model(
    scores: Float[Array, "d_vocab d_vocab"],
    raises: Float[Array, "d_vocab d_vocab"],
    bigram: Float[Array, "d_vocab d_vocab"],
) -> Model:
    """One head whose circuits are given tables: ``QK = scores``, ``OV = raises``.

    Source: S0 Definition 23 and Proposition 22, read backwards.
    """
    V = scores.shape[0]
    eye, none = jnp.eye(V), jnp.zeros((V, V))
    # Two copies of the token: one is read by the head, the other by the unembedding.
    reads, writes = jnp.concatenate([eye, none]), jnp.concatenate([none, eye], axis=1)
    heads = HeadStack(
        (reads @ scores)[None, None],
        reads[None, None],
        reads[None, None],
        (raises @ writes)[None, None],
    )
    W_U = jnp.concatenate([bigram, eye])
    return Model.of(W_E=reads.T, W_U=W_U, attention=heads, score_scale=1.0)


def copying_model(d_vocab: int, strength: float) -> Model:
    """One head that attends uniformly and raises the attended tokens: ``OV = strength · I``."""
    none = jnp.zeros((d_vocab, d_vocab))
    return skip_trigram_model(none, strength * jnp.eye(d_vocab), none)


def unless_model(
    d_vocab: int, a: int, b: int, query: int, out: int, other: int, high: float
) -> Model:
    """One head for "out after a, unless b": b takes the attention that a would get.

    Source: Shlegeris 2023, cited by S4 (E11).
    """
    scores = jnp.zeros((d_vocab, d_vocab))
    scores = scores.at[query, a].set(_SHARP).at[query, b].set(2 * _SHARP)
    raises = jnp.zeros((d_vocab, d_vocab)).at[a, out].set(jnp.log(high / (1 - high)))
    bigram = jnp.full((d_vocab, d_vocab), -_SHARP)
    bigram = bigram.at[:, out].set(0.0).at[:, other].set(0.0)
    return skip_trigram_model(scores, raises, bigram)


def precision_recall(found: Iterable[Hashable], true: Iterable[Hashable]) -> tuple[float, float]:
    """Precision and recall."""
    named, known = set(found), set(true)
    hits = len(named & known)
    return (
        hits / len(named) if named else math.nan,
        hits / len(known) if known else math.nan,
    )
