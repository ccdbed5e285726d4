"""Hand-written models with known circuits: ground truth for detectors and searches.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import math
from collections.abc import Hashable, Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Num

from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.positions import Positions, sinusoidal
from circuitax.kernel.run import run
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import HeadStack
from circuitax.models.transformer import init

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


class Strengths(NamedTuple):
    """Planted share of each head's weights, in [-1, 1]; the rest is random."""

    previous: Float[Array, " n_heads"]
    matching: Float[Array, " n_heads"]
    copying: Float[Array, " n_heads"]


def planted_model(
    key: Key[Array, ""], strengths: Strengths, d_vocab: int, n_ctx: int, sharpness: float = 24.0
) -> Model:
    r"""Heads of planted strength: ``W = c · planted + √(1 - c²) · random``, of equal norms.

    Source: framework paper, "how induction heads work", in the manner of
        `ground_truth.induction_model`.
    """
    sizes = {len(part) for part in strengths}
    (n_heads,) = sizes
    V, n = d_vocab, n_ctx
    token, place = slice(0, V), slice(V, V + n)
    marker, answer = slice(V + n, 2 * V + n), slice(2 * V + n, 3 * V + n)
    d, k = 3 * V + n, max(V, n)
    of_places, of_tokens, of_values = jax.random.split(key, 3)
    look = _mixed(of_places, strengths.previous, jnp.eye(n, k=-1))
    match = _mixed(of_tokens, strengths.matching, jnp.eye(V))
    copy = _mixed(of_values, strengths.copying, jnp.eye(V))
    every, eye = (n_heads, 1, 1), jnp.eye(V)

    def placed(rows: slice, columns: int, block: Array) -> Array:
        """The block in its rows of a map ``[n_heads, d, k]``, for every head."""
        full = block if block.ndim == 3 else jnp.tile(block[None], every)
        return jnp.zeros((n_heads, d, k)).at[:, rows, :columns].set(full)

    layers = (
        {
            "W_Q": placed(place, n, sharpness * look),
            "W_K": placed(place, n, jnp.eye(n)),
            "W_V": placed(token, V, eye),
            "W_O": jnp.swapaxes(placed(marker, V, eye / n_heads), 1, 2),
        },
        {
            "W_Q": placed(token, V, sharpness * match),
            "W_K": placed(marker, V, eye),
            "W_V": placed(token, V, copy),
            "W_O": jnp.swapaxes(placed(answer, V, eye), 1, 2),
        },
    )
    heads = HeadStack(*(jnp.stack([layer[w] for layer in layers]) for w in layers[0]))
    return Model.of(
        W_E=jnp.zeros((V, d)).at[:, token].set(jnp.eye(V)),
        W_U=jnp.zeros((d, V)).at[answer].set(jnp.eye(V)),
        attention=heads,
        W_pos=jnp.zeros((n, d)).at[:, place].set(jnp.eye(n)),
        positions=Positions.learned,
        score_scale=1.0,
    )


def offset_model(
    key: Key[Array, ""], offsets: Num[Array, " n_heads"], d_vocab: int, d_model: int, gain: float
) -> Model:
    """One layer in which each head asks sinusoidal positions for a fixed offset: ``W_QK = g R``.

    Source: framework paper, primarily positional heads (F6).
    """
    # Row 2i of the table is sin, row 2i + 1 cos: R takes the pair at t to the pair at t - offset.
    turned = sinusoidal(jnp.asarray(offsets), d_model, jnp.asarray(1.0).dtype)
    sin, cos = turned[:, 0::2], turned[:, 1::2]
    even = jnp.arange(0, d_model, 2)
    R = jnp.zeros((len(offsets), d_model, d_model))
    R = R.at[:, even, even].set(cos).at[:, even + 1, even + 1].set(cos)
    R = R.at[:, even, even + 1].set(sin).at[:, even + 1, even].set(-sin)
    eye = jnp.broadcast_to(jnp.eye(d_model), R.shape)
    embeddings = jax.random.normal(key, (d_vocab, d_model)) / math.sqrt(d_model)
    return Model.of(
        W_E=embeddings,
        W_U=embeddings.T,
        attention=HeadStack(*(part[None] for part in (gain * R, eye, eye, eye))),
        positions=Positions.shortformer_sinusoidal,
        score_scale=1.0,
    )


def _mixed(
    key: Key[Array, ""], strength: Float[Array, " n_heads"], planted: Float[Array, "rows columns"]
) -> Float[Array, "n_heads rows columns"]:
    """The planted matrix and a random one of its Frobenius norm, for every head."""
    c = jnp.asarray(strength)[:, None, None]
    rows, columns = planted.shape
    size = jnp.linalg.norm(planted) / math.sqrt(rows * columns)
    noise = size * jax.random.normal(key, (c.shape[0], rows, columns))
    return c * planted[None] + jnp.sqrt(1 - c**2) * noise


def unequal_heads(key: Key[Array, ""], model: Model, tail: float) -> Model:
    r"""The model with ``W_O ← W_O · exp(tail · N(0, 1))``, one draw for each head."""
    heads = model.blocks.attention
    strength = jnp.exp(tail * jax.random.normal(key, heads.W_O.shape[:2], heads.W_O.dtype))
    heads = heads._replace(W_O=heads.W_O * strength[:, :, None, None])
    return model.replace(blocks=model.blocks._replace(attention=heads))


def frozen_unequal(
    key: Key[Array, ""], strength_key: Key[Array, ""], sizes: TransformerSpec, tail: float
) -> FrozenModel:
    """A freshly initialised model with `unequal_heads`, frozen on a random text of its length."""
    if sizes.n_ctx is None:
        raise ValueError("sizes.n_ctx=None must be a number: the text is that long")
    model = unequal_heads(strength_key, init(derive(key, "weights"), sizes), tail)
    text = jax.random.randint(derive(key, "text"), (sizes.n_ctx,), 0, sizes.d_vocab)
    return frozen_model(run(model, text))
