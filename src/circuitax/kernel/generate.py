"""Text generation: read the prompt once, then one token at a time through a cache.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from circuitax.kernel.attention import Cache, empty_cache, softmax
from circuitax.kernel.checks import shortened, whole
from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import Tokens, forward, token_ids
from circuitax.kernel.keys import at_index, check_key
from circuitax.kernel.linalg import at_least_single
from circuitax.kernel.model import Model, check_next_tokens, check_one_member


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
    logits = at_least_single(logits)
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


_Carry = tuple[Array, Cache | None]


def generate(
    model: Model,
    prompt: Tokens,
    n_new: int,
    *,
    key: Key[Array, ""],
    sampling: Sampling | None = None,
) -> Int[Array, " n_text"]:
    """The prompt followed by ``n_new`` tokens, a pure function of the key, for jit and vmap.

    Token j is drawn with ``fold_in(key, j)``, so a longer text begins with the shorter one.

    Args:
        model: One model, causal.
        prompt: Ids, at least one: a list, or an array of NumPy or JAX; put the start token there if
            the model has one.
        n_new: Static, at least 1.
        key: Decides every draw; unused when greedy.
        sampling: Static; None to sample from the model itself.

    Raises:
        ValueError: If the prompt is empty, ``n_new`` is less than 1, the text would be longer than
            the position table, the outputs are no tokens, or, outside jit, a largest logit is not
            finite.

    Source: S0 Algorithm 10.
    Differs: keys and values of earlier tokens are kept instead of computing ``T(X_0)`` anew.
    """
    check_key(key, one=True)
    check_one_member(model)
    ids = token_ids(prompt, model.d_vocab, name="prompt")
    n_prompt, n_new = ids.shape[0], whole("n_new", n_new, 1)
    if sampling is not None and not isinstance(sampling, Sampling):
        given = f"sampling={shortened(sampling)}"
        raise ValueError(f"{given} must be a Sampling, such as Sampling(temperature=0)")
    check_next_tokens(model)
    if model.spec.positions.needs_table and model.W_pos is not None:
        # The last token is returned but never read by the model.
        n_ctx, n_read = model.W_pos.shape[0], n_prompt + n_new - 1
        if n_read > n_ctx:
            raise ValueError(
                f"n_new={n_new} after {n_prompt} tokens reads {n_read} positions, "
                f"must be at most the {n_ctx} of model.W_pos"
            )
    text, usable = _generate(model, ids, n_new, key, sampling or Sampling())
    if not isinstance(usable, jax.core.Tracer) and not usable:
        raise ValueError("model gives logits that are NaN or infinite: no token can be drawn")
    return text


@compiled("n_new", "how")
def _generate(
    model: Model, prompt: Int[Array, " n_prompt"], n_new: int, key: Key[Array, ""], how: Sampling
) -> tuple[Int[Array, " n_text"], Bool[Array, ""]]:
    """The text, and whether a token could be drawn at every step."""

    def pick(logits: Array, step: Array) -> tuple[Array, Array]:
        new = next_token(at_index(key, step), logits, how).astype(prompt.dtype)
        return new, jnp.isfinite(jnp.max(logits))

    def step(carry: _Carry, j: Array) -> tuple[_Carry, tuple[Array, Array]]:
        last, cache = carry
        logits, trace = forward(model, last[None], cache=cache)
        new, usable = pick(logits[0], j)
        return (new, trace.cache), (new, usable)

    logits, trace = forward(model, prompt, cache=empty_cache(model, prompt.shape[0] + n_new - 1))
    first, usable = pick(logits[-1], jnp.zeros((), jnp.int32))
    _, (rest, others) = jax.lax.scan(
        step, (first, trace.cache), jnp.arange(1, n_new, dtype=jnp.int32)
    )
    return jnp.concatenate([prompt, first[None], rest]), usable & others.all()
