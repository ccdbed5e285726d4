"""Measurements of a one-layer model: its circuits, its skip-trigrams, the price of its bugs."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from circuitax.circuits.skip_trigrams import price_bugs
from circuitax.circuits.weights.heads import position_blocks, positional_share, token_ov
from circuitax.circuits.weights.spectra import eigenvalue_score
from circuitax.circuits.weights.token_tables import copying_accuracy
from circuitax.kernel.chain import diagonal, materialise
from circuitax.kernel.forward import forward
from circuitax.kernel.model import Model
from circuitax.kernel.spectrum import cyclic, eigenvalues

N_OFFSETS = 16


def of_weights(model: Model, n_ctx: int) -> dict[str, Array]:
    """Scores of every head of layer 0; eigenvalues as real and imaginary parts side by side."""
    ov = jax.tree.map(lambda f: f[0] if f.ndim == 4 else f, token_ov(model))
    values = eigenvalues(cyclic(ov))
    blocks = position_blocks(model, n_ctx)
    table = materialise(blocks.position_position)[0]
    # Mean score by offset, each row centred over the sources that it may read.
    allowed = jnp.tril(jnp.ones((n_ctx, n_ctx)))[None]
    means = (table * allowed).sum(-1, keepdims=True) / allowed.sum(-1, keepdims=True)
    centred = table - means
    n_offsets = min(N_OFFSETS, n_ctx)
    by_offset = jnp.stack(
        [jnp.diagonal(centred, -o, -2, -1).mean(-1) for o in range(n_offsets)], axis=-1
    )
    return {
        "copying": eigenvalue_score(values),
        "eigenvalues": jnp.concatenate([values.real, values.imag], axis=-1),
        "diagonal": (diagonal(ov) > 0).mean(axis=-1),
        "top_1": copying_accuracy(ov, 1),
        "top_5": copying_accuracy(ov, 5),
        "positional": positional_share(blocks)[0],
        "position_scores": by_offset,
    }


def bug_price(model: Model, windows: Array, n_pairs: int) -> dict[str, Array]:
    """Held-out nats for each event that a free vector for each frequent pair would save.

    An event is a position whose most attended earlier token, over all heads, and present token are
    one of the most frequent such pairs. Even windows fit the vectors, odd ones price them.
    """

    def one(text: Array) -> tuple[Array, Array]:
        logits, trace = forward(model, text)
        strictly = jnp.tril(trace.patterns[0].max(axis=0), k=-1)
        return logits, text[strictly.argmax(axis=-1)]

    logits, sources = jax.lax.map(one, windows)
    d_vocab = logits.shape[-1]
    pair = (sources * d_vocab + windows)[:, 1:-1].ravel()
    counts = jnp.zeros(d_vocab**2).at[pair].add(1)
    _, frequent = jax.lax.top_k(counts, n_pairs)
    index = jnp.full(d_vocab**2, n_pairs).at[frequent].set(jnp.arange(n_pairs))[pair]
    odd = jnp.broadcast_to(jnp.arange(len(windows))[:, None] % 2, windows[:, 1:-1].shape)
    # A fixed number of events, so that the shapes are static: the frequent ones come first.
    n_events = pair.shape[0] // 8
    chosen = jnp.argsort(index, stable=True)[:n_events]
    active = (index[chosen] < n_pairs).astype(logits.dtype)
    held_out = odd.ravel()[chosen].astype(logits.dtype)
    events = logits[:, 1:-1].reshape(-1, d_vocab)[chosen]
    targets = windows[:, 2:].ravel()[chosen]
    place = jnp.minimum(index[chosen], n_pairs)
    # Events of no frequent pair share the last vector and are not priced.
    price = price_bugs(events, targets, place, held_out, n_pairs + 1, n_steps=30)
    weight = jax.ops.segment_sum(held_out * active, place, n_pairs + 1)[:n_pairs]
    saved = (price.saved_by_pair[:n_pairs] * weight).sum() / weight.sum()
    return {"bug_price": saved, "bug_events": weight.sum()}
