"""Repeated random sequences: only induction predicts the second copy.

With a fixed period p one layer needs no induction: "attend p - 1 positions back" is a function of
position alone. Here every sequence draws its own period, so the earlier copy has to be found by
content.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from circuitax.kernel.checks import whole
from circuitax.kernel.keys import check_key, derive


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
