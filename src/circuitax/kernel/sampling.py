"""From one row of logits to the next token: greedy, temperature, top-k, top-p.

S0 is "Some Structures in Transformer Architectures" (docs/bibliography.md).
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.softmax import softmax


@dataclass(frozen=True)
class Sampling:
    """Sampling options for the next token. Filters apply in the order of the fields."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not (self.temperature >= 0 and math.isfinite(self.temperature)):
            raise ValueError(f"temperature={self.temperature} must be finite and not negative")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k={self.top_k} must be at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p={self.top_p} must lie in (0, 1]")


def token_distribution(
    logits: Float[Array, " d_vocab"], sampling: Sampling
) -> Float[Array, " d_vocab"]:
    """Probabilities of the next token after temperature and filters; ties go to the lower id.

    Source: S0 Algorithm 10, step (c), ``p = softmax(z)``, which is temperature 1 without filters.
    """
    if sampling.temperature == 0:
        return jax.nn.one_hot(jnp.argmax(logits), logits.shape[0], dtype=logits.dtype)
    # Differences come first: quotients by a small temperature would round or overflow. A subnormal
    # temperature would be taken for 0.
    temperature = max(sampling.temperature, float(jnp.finfo(logits.dtype).tiny))
    p = softmax((logits - logits.max()) / temperature)
    order = jnp.argsort(-logits, stable=True)
    rank = jnp.argsort(order)
    if sampling.top_k is not None:
        p = _renormalised(jnp.where(rank < sampling.top_k, p, 0))
    # A running sum may round to 1 before the last token.
    if sampling.top_p is not None and sampling.top_p < 1:
        # A token stays while those before it have not reached top_p; the first always stays.
        before = jnp.cumsum(p[order]) - p[order]
        p = _renormalised(jnp.where(before[rank] < sampling.top_p, p, 0))
    return p


def next_token(
    key: Key[Array, ""], logits: Float[Array, " d_vocab"], sampling: Sampling
) -> Int[Array, ""]:
    """One token drawn from `token_distribution`, as int32 whatever the precision of the logits.

    Source: S0 Algorithm 10, step (d).
    """
    if sampling.temperature == 0:
        return jnp.argmax(logits).astype(jnp.int32)
    log_p = jnp.log(token_distribution(logits, sampling))
    return jax.random.categorical(key, log_p).astype(jnp.int32)


def _renormalised(p: Float[Array, " d_vocab"]) -> Float[Array, " d_vocab"]:
    return p / p.sum()
