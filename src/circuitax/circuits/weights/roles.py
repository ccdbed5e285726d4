"""Roles of heads: copying, name moving, memory management.

Each score comes with its value by chance. The module `detectors` scores where heads attend.

S4 are the notes on the framework paper (docs/bibliography.md).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.kernel.chain import Chain, columns, diagonal, materialise, rows
from circuitax.kernel.linalg import cosine, safe_divide
from circuitax.kernel.run import Run, one_text


class Role(NamedTuple):
    """A score for each head and its value by chance."""

    score: Float[Array, "*heads"]
    null: float


def copying(ov: Chain, tokens: Int[Array, " n_tokens"]) -> Role:
    """Copying score: share of a token's raises on the token itself, rescaled to [-1, 1].

    Source: induction-heads paper, "copying" evaluator, with its later remark (ReLU on mean-centred
        logits).
    Differs: it is taken over the set and not the vocabulary, so that chance is ``2/n - 1`` at any
        vocabulary.
    """
    if tokens.shape[0] < 2:
        raise ValueError(f"tokens has {tokens.shape[0]} entries, must have at least 2")
    table = materialise(columns(rows(ov, tokens), tokens))
    raised = jax.nn.relu(table - table.mean(axis=-1, keepdims=True))
    own = jnp.trace(raised, axis1=-2, axis2=-1)
    share = safe_divide(own, raised.sum(axis=(-2, -1)))
    return Role(2 * share - 1, 2 / tokens.shape[0] - 1)


def name_moving(
    pattern: Float[Array, "*heads dest src"],
    ov: Chain,
    tokens: Int[Array, " n_ctx"],
    names: Bool[Array, " n_ctx"],
    dest: int = -1,
) -> Role:
    """Name-mover score: attention from one position to the names, times the head's copying rate.

    ``Σ_{s in names} A_ts [x_s is the top of the OV row of x_s over the names]``, in [0, 1].

    Source: name movers of the indirect-object work, as a detector; null: uniform attention to all
        sources and a random row.
    """
    n_ctx = pattern.shape[-2]
    if not -n_ctx <= dest < n_ctx:
        raise ValueError(f"dest={dest} must be from {-n_ctx} to {n_ctx - 1}")
    among = materialise(columns(rows(ov, tokens), tokens))
    rivals = jnp.where(jnp.broadcast_to(names, among.shape), among, -jnp.inf)
    copied = jnp.diagonal(among, axis1=-2, axis2=-1) >= rivals.max(axis=-1)
    counted = (copied & jnp.broadcast_to(names, copied.shape)).astype(pattern.dtype)
    moved = jnp.sum(pattern[..., dest, :] * counted, axis=-1)
    return Role(moved, 1 / pattern.shape[-1])


class MemoryManagement(NamedTuple):
    """Signs of erasing heads: both are negative for a head that clears the stream.

    Attributes:
        alignment: Mean cosine between what the head writes and the stream it is added to; 0 by
            chance.
        own_token: Mean over tokens of attention to the present position times the OV diagonal, in
            logits.
    """

    alignment: Float[Array, "n_layers n_heads"]
    own_token: Float[Array, "n_layers n_heads"]


def memory_management(run: Run, ov: Chain) -> MemoryManagement:
    """Alignment of each head's output with the stream, and its effect on the present token's logit.

    Source: framework paper, "memory management" by heads of large negative OV eigenvalues that
        attend to the present token; S4.
    """
    trace = one_text(run).trace
    if trace.head_outputs is None:
        raise ValueError("run.trace.head_outputs is None: call forward with outputs=True")
    n_layers, n_heads = trace.patterns.shape[:2]
    if ov.shape[:-2] != (n_layers, n_heads):
        raise ValueError(f"ov has shape {ov.shape}, must start with [{n_layers}, {n_heads}]")
    stream = jnp.broadcast_to(trace.streams[:-1, None], trace.head_outputs.shape)
    own = jnp.diagonal(trace.patterns, axis1=-2, axis2=-1)
    return MemoryManagement(
        cosine(trace.head_outputs, stream).mean(axis=-1),
        (own * diagonal(ov)[..., run.tokens]).mean(axis=-1),
    )
