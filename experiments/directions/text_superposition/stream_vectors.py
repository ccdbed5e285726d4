"""The stream halfway through a model, as vectors: on which text, which are left out, how scaled.

Heads of SmolLM2 that find nothing attend to the first token of a text. The stream there is more
than a hundred times as long as elsewhere and has one direction, whatever the token is; it would be
most of what an autoencoder learns. So it is at boundary tokens between documents. Such vectors are
left out. Our text model has none.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from tokenizers import Tokenizer

from circuitax.data.corpus import python_corpus
from circuitax.data.text import TextSpec, open_text
from circuitax.data.tokenizer import corpus_tokens
from circuitax.data.windows import spaced_windows
from circuitax.kernel.forward import behind_start, final_stream
from circuitax.kernel.model import Model
from circuitax.lab.lab import Lab
from circuitax.models.text_tokenizer import load_tokenizer
from experiments.directions.text_superposition.weights import OURS, SMOLLM2, own_tokenizer

_RANDOM_LENGTH = 16
_LONGEST_WINDOW = 128
# One window in this many is kept from training, to measure on.
APART = 4
_AT_ONCE = 64
# Vectors beyond this many times the median length are left out.
_TOO_LONG = 10.0


class StreamVectors(NamedTuple):
    """Vectors of a stream, with the mean of ``seen`` taken off and its mean square norm 1.

    Attributes:
        seen: To train on.
        held: Of other windows, to measure on.
        left_out: How many more there were, far longer than the others.
    """

    seen: Float[np.ndarray, "n d_model"]
    held: Float[np.ndarray, "m d_model"]
    left_out: int


def own_text() -> TextSpec:
    """The text of our text models, in tokens of their accepted tokenizer."""
    tokenizer = str(own_tokenizer())
    return TextSpec(Tokenizer.from_file(tokenizer).get_vocab_size(), tokenizer=tokenizer)


def text_windows(name: str, model: Model, vectors: int) -> Int[np.ndarray, "window n_ctx"]:
    """Windows of the held-out part of Python's library and reference, in tokens of a model.

    They are as long as the model reads, and no longer than 128 tokens.

    Args:
        name: Of the model, "ours" or "smollm2".
        model: Of that name.
        vectors: Tokens wanted; fewer where there is less text.
    """
    if name == OURS:
        held_out = open_text(own_text()).tokens.validation
    else:
        held_out = corpus_tokens(python_corpus(), load_tokenizer(SMOLLM2)).validation
    length = min(model.n_ctx or _LONGEST_WINDOW, _LONGEST_WINDOW)
    n = max(min(vectors, len(held_out)) // length, 1)
    return spaced_windows(held_out, n, length)


def random_windows(
    model: Model, vectors: int, key: Key[Array, ""]
) -> Int[np.ndarray, "window n_ctx"]:
    """Random tokens, for a model that reads no text.

    Args:
        model: Any model.
        vectors: Tokens wanted.
        key: Draws them.
    """
    shape = (max(vectors // _RANDOM_LENGTH, APART), _RANDOM_LENGTH)
    return np.asarray(jax.random.randint(key, shape, 0, model.d_vocab))


def stream_vectors(
    lab: Lab, name: str, model: Model, windows: Int[np.ndarray, "window n_ctx"], layer: int
) -> StreamVectors:
    """The stream before a layer, at all tokens of the windows but the far longer ones.

    Args:
        lab: Of the experiment.
        name: Of the stage that computes streams.
        model: One model.
        windows: Texts; every fourth is held out.
        layer: From 0 to the number of layers, which stands for the final stream.
    """
    texts = behind_start(jnp.asarray(windows), model.spec.start_token)
    streams = lab.stage(name, _final_streams, first_layers(model, layer), texts)
    lengths = np.linalg.norm(streams, axis=-1)
    kept = lengths <= _TOO_LONG * np.median(lengths)
    apart = np.arange(len(windows)) % APART == 0
    seen, held = (streams[mask][kept[mask]] for mask in (~apart, apart))
    mean = seen.mean(axis=0, dtype=float)
    size = np.sqrt(((seen - mean) ** 2).sum(axis=1).mean())
    seen, held = (((x - mean) / size).astype(np.float32) for x in (seen, held))
    return StreamVectors(seen, held, int((~kept).sum()))


def first_layers(model: Model, n: int) -> Model:
    """The model without the layers from the n-th on; its final stream is layer n's input.

    Args:
        model: One model.
        n: From 0 to the number of layers.
    """
    blocks = jax.tree.map(lambda weight: weight[:n], model.blocks)
    return model.replace(blocks=blocks, spec=model.spec.replace(n_layers=n))


@jax.jit
def _final_streams(
    model: Model, texts: Int[Array, "window n_ctx"]
) -> Float[Array, "window n_ctx d_model"]:
    def one(text: Int[Array, " n_ctx"]) -> Float[Array, "n_ctx d_model"]:
        return final_stream(model, text)[0]

    return jax.lax.map(one, texts, batch_size=_AT_ONCE)
