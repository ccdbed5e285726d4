"""What is measured of the model of repeated subsequences: its losses."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.model import Model
from experiments.real_models.shared.published_models import Arrays, on_each

COPY, COPIES, LONG = 16, 3, 85  # tokens of a copy, copies, tokens of a text
RECORDED = LONG / (LONG - 1)  # the file averages over 84 positions and scales by 85
TRAINED, STREAM_BATCH, UNSEEN = 6000, 128, 20  # batches trained on, their texts, batches after them


class Copies(NamedTuple):
    """Texts with a subsequence that occurs three times, and where the copies start."""

    tokens: np.ndarray
    starts: np.ndarray

    @property
    def marked(self) -> np.ndarray:
        """The positions whose next token the loss counts: 15 in copies 1 and 2."""
        at = np.arange(LONG)
        inside = (at >= self.starts[:, 1:, None]) & (at < self.starts[:, 1:, None] + COPY - 1)
        return np.asarray(inside.any(axis=1))


def batches(seed: int, size: int) -> Iterator[Copies]:
    """One endless stream of batches from NumPy's global generator, as the notebook draws them.

    Source: progress-measures notebook "Non-Modular Addition Grokking Tasks", "Induction Heads".
    """
    draws, block = np.random.RandomState(seed), (LONG - 1) // COPIES
    while True:
        tokens = draws.randint(1, 128, (size, LONG))
        tokens[:, 0] = 0
        starts = np.stack(
            [
                draws.randint(1 + block * i, 1 + block * (i + 1) - (COPY - 1), size)
                for i in range(COPIES)
            ],
            axis=1,
        )
        rows = np.arange(size)[:, None]
        first = tokens[rows, starts[:, :1] + np.arange(COPY)]
        for i in range(1, COPIES):
            tokens[rows, starts[:, i : i + 1] + np.arange(COPY)] = first
        yield Copies(tokens, starts)


def copies(model: Model, texts: int) -> Arrays:
    """The induction run of repeated subsequences: its losses, also with the stream added once."""
    batch = Copies(*(part[:texts] for part in next(batches(1000, 1280))))
    stream = batches(1, STREAM_BATCH)
    n_unseen = UNSEEN if texts >= STREAM_BATCH else 1
    unseen = islice(stream, TRAINED + 1, TRAINED + 1 + n_unseen)
    return {
        "copies-unseen": RECORDED * np.array([_marked_loss(model, each) for each in unseen]),
        "copies-once": float(_marked_loss(stream_added_once(model), batch)),
    }


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


def _marked_loss(model: Model, batch: Copies) -> np.floating:
    """The mean loss of the next tokens that the training counts."""
    nats = on_each(lambda text: next_token_losses(forward(model, text)[0], text), batch.tokens)
    return np.asarray(nats)[batch.marked[:, :-1]].mean()
