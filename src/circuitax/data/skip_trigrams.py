"""A language with known bigram and skip-trigram tables: ground truth for recovered tables.

Tokens ``0 ... n_sources - 1`` are sources; each sequence holds exactly one, at a random place.
Every other token is drawn given the current token and whether the source has been passed:

    logits of the next token = bigram[current] + (source s passed) * skip[s, current]

which states "s ... current -> next" exactly, without any other dependence.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.keys import derive


class SkipTrigrams(NamedTuple):
    """Logit tables over the next token; columns of sources are -inf, since sources are placed."""

    bigram: Float[Array, "vocab vocab"]
    skip: Float[Array, "sources vocab vocab"]


class SkipSample(NamedTuple):
    """Sequences, with the source of each (``source``) and its position (``place``)."""

    tokens: Int[Array, "batch length"]
    source: Int[Array, " batch"]
    place: Int[Array, " batch"]


def random_language(
    key: Key[Array, ""],
    d_vocab: int,
    n_sources: int,
    *,
    bigram_scale: float = 1.0,
    skip_logit: float = 3.0,
    density: float = 0.2,
) -> SkipTrigrams:
    """Random tables: normal bigram logits, and sparse skip-trigrams of one strength.

    Args:
        key: Random key, not to be used again.
        d_vocab: Number of tokens, the sources included.
        n_sources: Number of sources, at least 1 and at most ``d_vocab - 2``.
        bigram_scale: Standard deviation of the bigram logits, nats, at least 0.
        skip_logit: Logit that a skip-trigram adds, nats.
        density: Share of (source, current, next) triples that are skip-trigrams, in [0, 1].

    Raises:
        ValueError: If ``n_sources`` or ``density`` is out of its range.
    """
    if not 1 <= n_sources <= d_vocab - 2:
        raise ValueError(f"n_sources={n_sources} must be between 1 and d_vocab - 2={d_vocab - 2}")
    if not 0 <= density <= 1:
        raise ValueError(f"density={density} must be between 0 and 1")
    normal = jax.random.normal(derive(key, "bigram"), (d_vocab, d_vocab))
    is_source = jnp.arange(d_vocab)[None, :] < n_sources
    on = jax.random.uniform(derive(key, "skip"), (n_sources, d_vocab, d_vocab)) < density
    return SkipTrigrams(
        jnp.where(is_source, -jnp.inf, bigram_scale * normal),
        jnp.where(on & ~is_source[None, :, :], skip_logit, 0.0),
    )


def next_log_probs(language: SkipTrigrams) -> Float[Array, "sources_and_none vocab vocab"]:
    """Log probabilities ``[source, current, next]``; the last source index is "none passed"."""
    skip = jnp.concatenate([language.skip, jnp.zeros_like(language.skip[:1])])
    return jax.nn.log_softmax(language.bigram[None, :, :] + skip, axis=-1)


def sample_skip_trigrams(
    key: Key[Array, ""], language: SkipTrigrams, batch: int, length: int
) -> SkipSample:
    """Sequences of the language; the source's place is uniform over all positions but the last.

    The first token, where it is not the source, is uniform over the tokens that are no sources. The
    source is itself a current token: its successor follows its own rows of the tables.

    Raises:
        ValueError: If ``batch`` is less than 1 or ``length`` less than 2.
    """
    if batch < 1:
        raise ValueError(f"batch={batch} must be at least 1")
    if length < 2:
        raise ValueError(f"length={length} must be at least 2")
    n_sources, d_vocab, _ = language.skip.shape
    source = jax.random.randint(derive(key, "source"), (batch,), 0, n_sources)
    place = jax.random.randint(derive(key, "place"), (batch,), 0, length - 1)
    first = jax.random.randint(derive(key, "first"), (batch,), n_sources, d_vocab)
    log_probs = next_log_probs(language)
    noise = jax.random.gumbel(derive(key, "next"), (length - 1, batch, d_vocab))

    def step(current: Array, position_and_noise: tuple[Array, Array]) -> tuple[Array, Array]:
        position, gumbel = position_and_noise
        table = jnp.where(place < position, source, n_sources)
        drawn = jnp.argmax(log_probs[table, current] + gumbel, axis=-1)
        following = jnp.where(position == place, source, drawn)
        return following, following

    start = jnp.where(place == 0, source, first)
    _, rest = jax.lax.scan(step, start, (jnp.arange(1, length), noise))
    return SkipSample(jnp.concatenate([start[None, :], rest]).T, source, place)
