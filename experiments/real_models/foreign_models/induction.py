"""Measurements of the progress-measures induction model."""

from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from circuitax.circuits.ledger.ledger import ledger
from circuitax.circuits.paths.expansion import expand
from circuitax.circuits.weights.composition import composition_scores
from circuitax.circuits.weights.heads import token_ov
from circuitax.circuits.weights.spectra import copying_score
from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.keys import host_generator
from circuitax.kernel.model import Model
from circuitax.kernel.run import run
from experiments.real_models.foreign_models.ablations import ablated, mean_outputs, on_each
from experiments.real_models.foreign_models.tasks import COPY, LONG, Copies, batches, one_batch

PREVIOUS, INDUCERS = 2, (1, 2, 3)  # head 0.2; heads 1.1, 1.2, 1.3
BLOCKS = (slice(2, 29), slice(29, 57), slice(57, 85))
RECORDED = LONG / (LONG - 1)  # the file averages over 84 positions and scales by 85
PERIOD = 28
STREAM_BATCH, UNSEEN = 128, 20


def read(model: Model, texts: int, key: jax.Array) -> dict[str, object]:
    """Losses, ablations, patterns, composition, copying, paths; and the stream added once."""
    whole = one_batch(1000, 1280)
    batch = Copies(whole.tokens[:texts], whole.starts[:texts])
    labels = (batch.tokens, batch.marked[:, :-1])
    of_loss = (model, batch.tokens, labels, _marked_loss)
    nats, right = _nats(model, batch.tokens)
    intact = float(nats[batch.marked[:, :-1]].mean())
    rises = [
        ablated(*of_loss, replacement) - intact
        for replacement in (mean_outputs(model, batch.tokens), None)
    ]
    by_place = nats[np.arange(len(nats))[:, None], batch.starts[:, 1:2] + np.arange(COPY - 1)]
    scores = np.asarray(composition_scores(model))[1, 0, :, 1, :]
    plain, _ = _nats(stream_added_once(model), batch.tokens)
    n_unseen = UNSEEN if texts >= STREAM_BATCH else 1
    return (
        {
            "copies-unseen": _unseen(model, 6000, n_unseen),
            "copies-accuracy": float(right[batch.marked[:, :-1]].mean()),
            "copies-by-place": by_place.mean(axis=0),
            "copies-mean-ablation": rises[0],
            "copies-zero-ablation": rises[1],
            "copies-composition": scores[PREVIOUS],
            "copies-others": float(np.delete(scores, PREVIOUS, axis=0).max()),
            "copies-copying": np.asarray(copying_score(token_ov(model)))[1],
            "copies-once": float(plain[batch.marked[:, :-1]].mean()),
            "copies-period": _by_period(model, key, min(texts, 512)),
        }
        | _patterns(model, batch)
        | _paths(model, batch)
    )


def stream_added_once(model: Model) -> Model:
    """The weights as the source file has them, which its ``x ← 2x + attn(x)`` expects.

    Read into a plain residual stream they are another function; the converted ones are not.
    """
    heads = model.blocks.attention
    later = jnp.array([1.0, 0.5])[:, None, None, None]
    heads = heads._replace(
        W_Q=heads.W_Q * later,
        W_K=heads.W_K * later,
        W_V=heads.W_V * later,
        W_O=heads.W_O * jnp.array([2.0, 4.0])[:, None, None, None],
    )
    return model.replace(blocks=model.blocks._replace(attention=heads), W_U=model.W_U / 4)


def _nats(model: Model, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The loss of each next token, and whether it is the most probable."""

    def of_text(text: Array) -> tuple[Array, Array]:
        logits = forward(model, text)[0]
        return next_token_losses(logits, text), logits[:-1].argmax(axis=-1) == text[1:]

    nats, right = on_each(of_text, tokens)
    return np.asarray(nats), np.asarray(right)


def _marked_loss(logits: Float[Array, "n_ctx d_vocab"], label: tuple[Array, Array]) -> Array:
    text, marked = label
    return jnp.where(marked, next_token_losses(logits, text), 0).sum() / marked.sum()


def _unseen(model: Model, first: int, n: int) -> np.ndarray:
    """The loss, as recorded, on each batch of the training stream after the last one trained on."""
    stream = islice(batches(1, STREAM_BATCH), first + 1, first + 1 + n)
    losses = [_nats(model, b.tokens)[0][b.marked[:, :-1]].mean() for b in stream]
    return RECORDED * np.array(losses)


def _by_period(model: Model, key: jax.Array, n: int) -> np.ndarray:
    """Loss of each copy when a random block of 28 tokens fills the text three times."""
    block = host_generator(key).integers(1, 128, (n, PERIOD))
    nats, _ = _nats(model, np.pad(np.tile(block, 3), ((0, 0), (1, 0))))
    return nats.mean(axis=0).reshape(3, PERIOD).mean(axis=1)


def _patterns(model: Model, batch: Copies) -> dict[str, object]:
    """Attention of layer 0 to the token before, by part of the text; of layer 1 to successors."""
    both = np.asarray(on_each(lambda text: forward(model, text)[1].patterns, batch.tokens))
    at = np.arange(1, LONG)
    previous = np.pad(both[:, 0][:, :, at, at - 1].mean(axis=0), ((0, 0), (1, 0)))
    by_block = np.stack([previous[:, block].mean(axis=1) for block in BLOCKS], axis=1)
    rows, j = np.arange(len(both))[:, None], np.arange(COPY - 1)
    first, second, third = (batch.starts[:, i : i + 1] + j for i in range(3))
    given = [
        both[:, 1][rows, :, query, source + 1].mean(axis=(0, 1))
        for query, source in ((second, first), (third, first), (third, second))
    ]
    return {
        "copies-previous": by_block[PREVIOUS],
        "copies-previous-others": float(np.delete(by_block, PREVIOUS, axis=0).max()),
        "copies-successor": np.stack(given),
    }


def _paths(model: Model, batch: Copies, n: int = 16) -> dict[str, object]:
    """The largest position path to the right token in the middle of copy 1; and the sum."""
    ends_there = []
    for text, (first, second, _) in zip(batch.tokens[:n], batch.starts[:n], strict=True):
        place = COPY // 2
        seen = run(model, text)
        top = ledger(
            seen, token=text[second + place + 1], position=second + place, k=1, by_position=True
        )
        last, source = top.paths[0][-1:], top.positions[0][-1:]
        ends_there.append(
            bool(last) and last[0] in {(1, h) for h in INDUCERS} and source[0] == first + place + 1
        )

    def left(text: Array) -> Array:
        return jnp.abs(expand(run(model, text)).remainder).max()

    return {
        "copies-top-path": float(np.mean(ends_there)),
        "copies-top-path-n": len(ends_there),
        "copies-closes": float(jnp.max(on_each(left, batch.tokens[:n]))),
    }
