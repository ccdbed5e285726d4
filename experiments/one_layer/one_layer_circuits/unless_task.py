"""The language "a unless b", which no sum of skip-trigrams can express and one head can.

A sequence is filler, perhaps an ``a``, perhaps a ``b``, then the query, then ``out`` or ``other``:

    P(out | neither, a, b, both) = 1/2, high, 1/2, 1/2

A sum of skip-trigrams gives "both" the sum of the logits that ``a`` and ``b`` add alone, which is a
raise; the language asks for none. A head's softmax can do it: the attention that goes to ``b`` is
taken from ``a``. The four cells are equally frequent.

S4 are the notes on the framework paper (docs/bibliography.md). E11 is an erratum of the sources
(docs/errata.md).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import derive

A, B, QUERY, OUT, OTHER, FIRST_FILLER = range(6)
NEITHER, ONLY_A, ONLY_B, BOTH = range(4)


class UnlessSample(NamedTuple):
    """Sequences ending in the query and its answer; ``cell`` is which of a, b they hold."""

    tokens: Int[Array, "batch length"]
    cell: Int[Array, " batch"]


def answer_probs(high: float) -> Float[Array, " cell"]:
    """P(out) in the cells neither, only a, only b, both."""
    return jnp.array([0.5, high, 0.5, 0.5])


def optimal_loss(high: float) -> float:
    """Least cross-entropy of the answer, nats: the mean entropy of the four cells."""
    probs = answer_probs(high)
    return float(-jnp.mean(probs * jnp.log(probs) + (1 - probs) * jnp.log1p(-probs)))


def sample_unless(
    key: Key[Array, ""], batch: int, length: int, *, n_filler: int, high: float
) -> UnlessSample:
    """Sequences of the language.

    Args:
        key: Random key, not to be used again.
        batch: Number of sequences, at least 1.
        length: Tokens in a sequence, at least 4: two places for a and b, the query, the answer.
        n_filler: Number of filler tokens, at least 1; the vocabulary is ``5 + n_filler``.
        high: P(out) when a is there and b is not, in (1/2, 1).

    Raises:
        ValueError: If an argument is out of its range.

    Source: Shlegeris, "One-layer transformers aren't equivalent to a set of skip-trigrams" (2023);
        S4; erratum E11.
    """
    check_range("batch", batch, "[1, inf)")
    check_range("length", length, "[4, inf)")
    check_range("n_filler", n_filler, "[1, inf)")
    if not 0.5 < high < 1:
        raise ValueError(f"high={high} must lie between 1/2 and 1")
    cell = jax.random.randint(derive(key, "cell"), (batch,), 0, 4)
    n_places = length - 2
    filler = jax.random.randint(
        derive(key, "filler"), (batch, n_places), FIRST_FILLER, FIRST_FILLER + n_filler
    )
    # Two different places: the second is uniform over the remaining ones.
    place_a = jax.random.randint(derive(key, "place a"), (batch,), 0, n_places)
    gap = jax.random.randint(derive(key, "gap"), (batch,), 1, n_places)
    place_b = (place_a + gap) % n_places
    where = jnp.arange(n_places)[None, :]
    has_a = (cell == ONLY_A) | (cell == BOTH)
    has_b = (cell == ONLY_B) | (cell == BOTH)
    body = jnp.where(has_a[:, None] & (where == place_a[:, None]), A, filler)
    body = jnp.where(has_b[:, None] & (where == place_b[:, None]), B, body)
    out = jax.random.uniform(derive(key, "answer"), (batch,)) < answer_probs(high)[cell]
    tail = jnp.stack([jnp.full_like(cell, QUERY), jnp.where(out, OUT, OTHER)], axis=1)
    return UnlessSample(jnp.concatenate([body, tail], axis=1), cell)
