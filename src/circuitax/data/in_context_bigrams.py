"""In-context bigrams: a few trigger tokens whose successor is fixed anew in every sequence.

Tokens follow a global bigram table, except after a trigger, which is followed by its output, drawn
once for the sequence. Weights can learn the table but not the outputs, which have to be read from
the context by induction.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from circuitax.kernel.keys import derive


class BigramSample(NamedTuple):
    """Sequences with their triggers, and the output of each trigger in each sequence."""

    tokens: Int[Array, "batch length"]
    triggers: Int[Array, "batch n_triggers"]
    outputs: Int[Array, "batch n_triggers"]


def random_bigrams(key: Key[Array, ""], d_vocab: int, scale: float = 1.0) -> Float[Array, "v v"]:
    """A global table of log probabilities ``[current, next]`` from normal logits.

    Raises:
        ValueError: If ``d_vocab`` is less than 2.
    """
    if d_vocab < 2:
        raise ValueError(f"d_vocab={d_vocab} must be at least 2")
    return jax.nn.log_softmax(scale * jax.random.normal(key, (d_vocab, d_vocab)), axis=-1)


def sample_in_context_bigrams(
    key: Key[Array, ""],
    log_bigram: Float[Array, "vocab vocab"],
    batch: int,
    length: int,
    *,
    n_triggers: int,
    fixed_triggers: bool = False,
) -> BigramSample:
    """Sequences of the task.

    Args:
        key: Random key, not to be used again.
        log_bigram: Log probabilities of the next token, ``[current, next]``.
        batch: Number of sequences, at least 1.
        length: Tokens in a sequence, at least 2.
        n_triggers: Different triggers in a sequence, between 1 and ``d_vocab``.
        fixed_triggers: Let tokens ``0 ... n_triggers - 1`` be the triggers of every sequence
            instead of drawing them for each.

    Raises:
        ValueError: If a size is out of its range.

    Source: Bietti et al., "Birth of a Transformer: A Memory Viewpoint" (2023), section 3; outputs
        are uniform here.
    """
    d_vocab = log_bigram.shape[0]
    if batch < 1:
        raise ValueError(f"batch={batch} must be at least 1")
    if length < 2:
        raise ValueError(f"length={length} must be at least 2")
    if not 1 <= n_triggers <= d_vocab:
        raise ValueError(f"n_triggers={n_triggers} must be between 1 and d_vocab={d_vocab}")
    if fixed_triggers:
        triggers = jnp.broadcast_to(jnp.arange(n_triggers)[None, :], (batch, n_triggers))
    else:
        order = jax.random.uniform(derive(key, "triggers"), (batch, d_vocab))
        triggers = jnp.argsort(order, axis=1)[:, :n_triggers]
    outputs = jax.random.randint(derive(key, "outputs"), (batch, n_triggers), 0, d_vocab)
    first = jax.random.randint(derive(key, "first"), (batch,), 0, d_vocab)
    noise = jax.random.gumbel(derive(key, "next"), (length - 1, batch, d_vocab))

    def step(current: Array, gumbel: Array) -> tuple[Array, Array]:
        drawn = jnp.argmax(log_bigram[current] + gumbel, axis=-1)
        hit = current[:, None] == triggers
        output = jnp.sum(jnp.where(hit, outputs, 0), axis=1)
        following = jnp.where(jnp.any(hit, axis=1), output, drawn)
        return following, following

    _, rest = jax.lax.scan(step, first, noise)
    return BigramSample(jnp.concatenate([first[None, :], rest]).T, triggers, outputs)


def is_known(sample: BigramSample) -> Bool[Array, "batch length"]:
    """Where the next token can be known from the context: at a trigger that has occurred before."""
    hit = sample.tokens[:, :, None] == sample.triggers[:, None, :]
    before = jnp.cumsum(hit, axis=1) - hit > 0
    return jnp.any(hit & before, axis=2)
