"""What is measured of the model of repeated subsequences: losses, attention and closing sums."""

from itertools import islice

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from circuitax.circuits.paths.expansion import expand
from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.model import Model
from circuitax.kernel.run import run
from experiments.real_models.foreign_models import examples
from experiments.real_models.foreign_models.examples import COPY, LONG, Copies
from experiments.real_models.foreign_models.models import Arrays, on_each

RECORDED = LONG / (LONG - 1)  # the file averages over 84 positions and scales by 85
TRAINED, STREAM_BATCH, UNSEEN = 6000, 128, 20  # batches trained on, their texts, batches after them


def copies(model: Model, texts: int, key: Array) -> Arrays:
    """The induction run of repeated subsequences: losses, attention, paths; the stream once."""
    whole = next(examples.batches(1000, 1280))
    batch = Copies(whole.tokens[:texts], whole.starts[:texts])
    stream = examples.batches(1, STREAM_BATCH)
    n_unseen = UNSEEN if texts >= STREAM_BATCH else 1
    unseen = islice(stream, TRAINED + 1, TRAINED + 1 + n_unseen)

    def left(text: Array) -> Array:
        return jnp.abs(expand(run(model, text)).remainder).max()

    return {
        "copies-unseen": RECORDED * np.array([_marked_loss(model, each) for each in unseen]),
        "copies-once": float(_marked_loss(stream_added_once(model), batch)),
        "copies-successor": _to_successors(model, batch),
        "copies-closes": float(jnp.max(on_each(left, batch.tokens[:16]))),
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


def _to_successors(model: Model, batch: Copies) -> Float[np.ndarray, "pair head"]:
    """Attention of layer 1 to successors: copy 1 at 0's, copy 2 at 0's, copy 2 at 1's."""
    patterns = np.asarray(on_each(lambda text: forward(model, text)[1].patterns[1], batch.tokens))
    rows, j = np.arange(len(patterns))[:, None], np.arange(COPY - 1)
    first, second, third = (batch.starts[:, i : i + 1] + j for i in range(3))
    pairs = ((second, first), (third, first), (third, second))
    given = [patterns[rows, :, query, source + 1].mean(axis=(0, 1)) for query, source in pairs]
    return np.stack(given)
