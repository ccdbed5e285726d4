"""Synthetic data: repeated random sequences, chained maps, and sparse features.

With a fixed period p one layer needs no induction: "attend p - 1 positions back" is a function of
position alone. Here every sequence draws its own period, so the earlier copy has to be found by
content.

A map of n symbols to symbols, every end uniform, is listed as n tokens ``a→b`` in random order.
Then come questions, each a token "k steps from a" followed by its answer. Where one step leads
stands in the text, and a head that looks for ``a→`` reads it; k steps need k heads one behind the
other, each of which looks for what the one before has found.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.checks import check_range, whole
from circuitax.kernel.keys import check_key, derive

# Tokens of "a unless b".
A, B, QUERY, OUT, OTHER = UNLESS = range(5)


class Repeated(NamedTuple):
    """``tokens[i] = tokens[i - period]`` from position ``period`` on, random before."""

    tokens: Int[Array, "batch length"]
    period: Int[Array, " batch"]


@dataclass(frozen=True)
class RepeatedSource:
    """Texts for training, described by a config; see `sample_repeated` for the fields."""

    batch: int = 32
    length: int = 32
    d_vocab: int = 32
    min_period: int = 8
    max_period: int = 16
    distinct: bool = False

    def __post_init__(self) -> None:
        _check(
            self.batch, self.length, self.d_vocab, self.min_period, self.max_period, self.distinct
        )

    def __call__(self, key: Key[Array, ""]) -> Int[Array, "batch length"]:
        """One batch, a pure function of the key."""
        return self.sample(key).tokens

    def sample(self, key: Key[Array, ""]) -> Repeated:
        """One batch with its periods."""
        return sample_repeated(
            key,
            self.batch,
            self.length,
            self.d_vocab,
            min_period=self.min_period,
            max_period=self.max_period,
            distinct=self.distinct,
        )


def sample_repeated(
    key: Key[Array, ""],
    batch: int,
    length: int,
    d_vocab: int,
    *,
    min_period: int,
    max_period: int,
    distinct: bool = False,
) -> Repeated:
    """Repeated random sequences, each with its own period, uniform on ``[min, max]``.

    Source: induction-heads paper, "repeated random sequences"; the random periods are ours.
    """
    _check(batch, length, d_vocab, min_period, max_period, distinct)
    period = jax.random.randint(derive(key, "period"), (batch,), min_period, max_period + 1)
    symbols = derive(key, "symbols")
    if distinct:
        order = jnp.argsort(jax.random.uniform(symbols, (batch, d_vocab)), axis=1)
        block = order[:, :max_period]
    else:
        block = jax.random.randint(symbols, (batch, max_period), 0, d_vocab)
    source = jnp.arange(length)[None, :] % period[:, None]
    return Repeated(jnp.take_along_axis(block, source, axis=1), period)


def repeated_tokens(
    key: Key[Array, ""], batch: int, length: int, d_vocab: int
) -> Int[Array, "batch length"]:
    """Random texts that repeat themselves, for `induction_scores`: `sample_repeated` with defaults.

    Each text has a period of its own, from a quarter to half of the length, and no token twice in
    it where the vocabulary has so many.

    Args:
        key: Random key, not to be used again.
        batch: Number of texts, at least 1.
        length: Tokens of each, at least 2.
        d_vocab: Number of tokens, at least 2.

    Raises:
        ValueError: If a size is out of its range.
    """
    length, d_vocab = whole("length", length, 2), whole("d_vocab", d_vocab, 2)
    check_key(key, one=True)
    most = length // 2
    return sample_repeated(
        key,
        batch,
        length,
        d_vocab,
        min_period=max(length // 4, 1),
        max_period=most,
        distinct=most <= d_vocab,
    ).tokens


def _check(
    batch: int, length: int, d_vocab: int, min_period: int, max_period: int, distinct: bool
) -> None:
    whole("batch", batch, 1)
    whole("d_vocab", d_vocab, 2)
    if not 1 <= min_period <= max_period < length:
        raise ValueError(
            f"min_period={min_period} and max_period={max_period} must satisfy "
            f"1 <= min_period <= max_period < length={length}"
        )
    if distinct and max_period > d_vocab:
        raise ValueError(
            f"max_period={max_period} must be at most d_vocab={d_vocab} when symbols are distinct"
        )


class Chained(NamedTuple):
    """Texts, and the steps that their questions ask for.

    Attributes:
        steps: How many steps each question asks for.
    """

    tokens: Int[Array, "batch length"]
    steps: Int[Array, "batch n_questions"]


@dataclass(frozen=True)
class ChainedMapSource:
    """Texts for training, described by a config.

    Tokens ``0 … n - 1`` are the symbols, which are also the answers. Then come the n² steps,
    ``a→b`` at ``n + a n + b``, and the questions, "k steps from a" at ``n + n² + (k - 1) n + a``.

    Attributes:
        batch: Texts, at least 1.
        n_symbols: n, at least 2.
        n_steps: Most steps that are asked for, at least 1.
        n_questions: Questions of a text, all different, in [1, n_symbols n_steps].
    """

    batch: int = 32
    n_symbols: int = 6
    n_steps: int = 4
    n_questions: int = 8

    def __post_init__(self) -> None:
        for name, least in (("batch", 1), ("n_symbols", 2), ("n_steps", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {least}")
        most = self.n_symbols * self.n_steps
        if not 1 <= self.n_questions <= most:
            raise ValueError(
                f"n_questions={self.n_questions} must be between 1 and n_symbols n_steps={most}"
            )

    @property
    def d_vocab(self) -> int:
        """Number of different tokens."""
        return self.n_symbols * (1 + self.n_symbols + self.n_steps)

    @property
    def length(self) -> int:
        """Tokens of a text: the steps of its map, and two for every question."""
        return self.n_symbols + 2 * self.n_questions

    @property
    def questions(self) -> Int[np.ndarray, " n_questions"]:
        """Positions of the questions; the model predicts answers there."""
        return self.n_symbols + 2 * np.arange(self.n_questions)

    def __call__(self, key: Key[Array, ""]) -> Int[Array, "batch length"]:
        """One batch, a pure function of the key."""
        return self.sample(key).tokens

    def sample(self, key: Key[Array, ""]) -> Chained:
        """One batch, and the number of steps of each question."""
        n, batch = self.n_symbols, self.batch
        ends = jax.random.randint(derive(key, "ends"), (batch, n), 0, n)
        listed = _orders(derive(key, "listed"), batch, n)
        asked = _orders(derive(key, "asked"), batch, n * self.n_steps)[:, : self.n_questions]

        def follow(start: Array) -> Array:
            return jnp.take_along_axis(ends, start, axis=1)

        starts, steps = asked % n, 1 + asked // n
        answers = starts
        for done in range(self.n_steps):
            answers = jnp.where(done < steps, follow(answers), answers)
        pairs = n + n * listed + follow(listed)
        questions = jnp.stack([n + n * n + asked, answers], axis=2).reshape(batch, -1)
        return Chained(jnp.concatenate([pairs, questions], axis=1), steps)


class Unless(NamedTuple):
    """Texts of "a unless b", and which of a and b each holds: neither, only a, only b, both."""

    tokens: Int[Array, "batch length"]
    cell: Int[Array, " batch"]


@dataclass(frozen=True)
class UnlessSource:
    """Filler, perhaps an ``a``, perhaps a ``b``, then a query and its answer, ``out`` or ``other``.

    ``P(out | neither, a, b, both) = 1/2, high, 1/2, 1/2``, each as often: a sum of skip-trigrams
    gives "both" the sum of what ``a`` and ``b`` add alone. Tokens are a, b, the query, out, other,
    and then fillers. Source: Shlegeris, "One-layer transformers aren't equivalent to a set of
    skip-trigrams" (2023); erratum E11.
    """

    batch: int = 256
    length: int = 6
    n_filler: int = 4
    high: float = 0.9

    def __post_init__(self) -> None:
        check_range("n_filler", self.n_filler, "[1, inf)")
        check_range("length", self.length, "[4, inf)")

    def __call__(self, key: Key[Array, ""]) -> Int[Array, "batch length"]:
        """One batch, a pure function of the key."""
        return self.sample(key).tokens

    def sample(self, key: Key[Array, ""]) -> Unless:
        """One batch, and the cell of each text."""
        batch, n_places = self.batch, self.length - 2
        cell = jax.random.randint(derive(key, "cell"), (batch,), 0, 4)
        body = jax.random.randint(
            derive(key, "filler"), (batch, n_places), len(UNLESS), len(UNLESS) + self.n_filler
        )
        # Two different places: the second is uniform over the remaining ones.
        place_a = jax.random.randint(derive(key, "place a"), (batch,), 0, n_places)
        gap = jax.random.randint(derive(key, "gap"), (batch,), 1, n_places)
        where = jnp.arange(n_places)[None, :]
        for token, place in ((A, place_a), (B, (place_a + gap) % n_places)):
            holds = (cell == 1 + token) | (cell == 3)
            body = jnp.where(holds[:, None] & (where == place[:, None]), token, body)
        out = jax.random.uniform(derive(key, "answer"), (batch,)) < self.answer_probs[cell]
        tail = jnp.stack([jnp.full_like(cell, QUERY), jnp.where(out, OUT, OTHER)], axis=1)
        return Unless(jnp.concatenate([body, tail], axis=1), cell)

    @property
    def answer_probs(self) -> Float[Array, " cell"]:
        """P(out) in the cells neither, only a, only b, both."""
        return jnp.array([0.5, self.high, 0.5, 0.5])

    @property
    def optimal_loss(self) -> float:
        """Least cross-entropy of the answer, nats: the mean entropy of the four cells."""
        probs = self.answer_probs
        return float(-jnp.mean(probs * jnp.log(probs) + (1 - probs) * jnp.log1p(-probs)))


def _orders(key: Key[Array, ""], batch: int, n: int) -> Int[Array, "batch n"]:
    """One random order of ``0 … n - 1`` for each text."""
    return jnp.argsort(jax.random.uniform(key, (batch, n)), axis=1)


@dataclass(frozen=True)
class SparseTask:
    """Sparse features, swept over sparsity and over the decay of importance.

    A number or a list is accepted for the two swept fields, so that ``task.sparsity=0.7`` is one
    job of a multirun and ``task.sparsity=[0,0.7]`` one vmapped axis; both end as a tuple.

    Attributes:
        sparsity: S, the probability that a feature is zero, in [0, 1); the density is 1 − S.
        importance_base: Feature i has the weight ``base ** i`` in the loss, i from 0; 1 is uniform.
        batch_size: Fresh samples for each step, at least 1.

    Source: toy-models paper, "Demonstrating Superposition".
    """

    # Any: OmegaConf has no union of a number and a list.
    sparsity: Any = (0.0,)
    importance_base: Any = (1.0,)
    batch_size: int = 1024

    def __post_init__(self) -> None:
        object.__setattr__(self, "sparsity", _numbers("sparsity", self.sparsity))
        object.__setattr__(
            self, "importance_base", _numbers("importance_base", self.importance_base)
        )
        for value in self.sparsity:
            if not 0 <= value < 1:
                raise ValueError(f"sparsity={value:g} must be in [0, 1): it is P(feature = 0)")
        for value in self.importance_base:
            if not value > 0:
                raise ValueError(f"importance_base={value:g} must be positive")
        check_range("batch_size", self.batch_size, "[1, inf)")

    @property
    def density(self) -> Float[Array, " density"]:
        """p = 1 − S for every sparsity of the sweep."""
        return jax.device_put(1 - _on_host(self.sparsity))

    def importance(self, n_features: int) -> Float[Array, "importance_base n_features"]:
        """``base ** i`` for every base of the sweep."""
        return _powers(_on_host(self.importance_base), n_features)


@partial(jax.jit, static_argnums=1)  # one program for each size, where eager steps take four
def _powers(base: Float[Array, " base"], count: int) -> Float[Array, "base count"]:
    return base[:, None] ** jnp.arange(count)[None, :]


def _on_host(numbers: tuple[float, ...]) -> np.ndarray:
    # JAX would compile a program to convert them, for each length.
    return np.asarray(numbers, jnp.result_type(float))


def _numbers(name: str, value: Any) -> tuple[float, ...]:
    """A tuple of floats from a number or a sequence of numbers."""
    many = value if isinstance(value, (list, tuple)) else (value,)
    for item in many:
        if isinstance(item, bool) or not isinstance(item, (int, float)):
            raise ValueError(f"{name}={value!r} must be a number or a list of numbers")
    if not many:
        raise ValueError(f"{name}=[] must hold at least one number")
    if len(set(many)) < len(many):
        raise ValueError(f"{name}={list(many)} holds a number twice")
    return tuple(float(item) for item in many)


def paired_features(
    pair: Float[Array, "batch n_pairs"],
    value: Float[Array, "batch n_features"],
    density: float | Float[Array, ""],
    together: float | Float[Array, ""],
) -> Float[Array, "batch n_features"]:
    """Features 2s and 2s + 1 form pair s: each is on with probability p, depending on the other.

    ``P(both) = p * together``; so ``together`` is 0 for features that exclude each other, p for
    independent ones, and 1 for features that are always on together. Values are uniform on [0, 1).

    Source: the distribution of two correlated features in Chanin et al. 2025, arXiv 2505.11756.
    """
    both, one, other = density * together, density, density * (2 - together)
    first = pair < one
    second = (pair < both) | ((pair >= one) & (pair < other))
    on = jnp.stack([first, second], axis=2).reshape(pair.shape[0], -1)
    return jnp.where(on[:, : value.shape[1]], value, 0)
