"""The two models: their directions as rows, and the texts on which their streams are taken."""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key
from tokenizers import Tokenizer

from circuitax.circuits.weights.folding import fold_read
from circuitax.config.catalogue import checkout
from circuitax.data.corpus import python_corpus
from circuitax.data.text import TextSpec, open_text, spaced_windows
from circuitax.data.tokenizer import corpus_tokens
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kit.kept_models import KeptModels
from circuitax.kit.real_model import RANDOM, open_weights
from circuitax.lab.runs import ACCEPTED, ARRAYS, PUBLISHED, TOKENIZER, whole
from circuitax.models.pretrained import load_pretrained, load_tokenizer
from circuitax.models.sources import has_smollm2

OURS, SMOLLM2 = "ours", "smollm2"
REAL = "real"
FULL = "full"  # the transformer with MLPs among our text models
# One window in this many is kept from training, to measure on.
APART = 4
_RANDOM_LENGTH, _LONGEST_WINDOW = 16, 128


class Rows(NamedTuple):
    """Directions of one kind in one model, one in each row.

    Attributes:
        kind: "tokens", "read", "gate" or "write".
        layer: -1 for tokens.
        dim: Dimensions that the rows can have: one less than d_model behind a layer norm's
            centring.
    """

    model: str
    kind: str
    layer: int
    rows: Array
    dim: int


def _accepted() -> Path:
    return checkout() / "results" / "text_models" / ACCEPTED


def own_weights() -> Path:
    """Path of the accepted weights of our text model: one member in half precision."""
    return _accepted() / ARRAYS / f"{PUBLISHED}{FULL}.safetensors"


def own_text() -> TextSpec:
    """The text of our text models, in tokens of their accepted tokenizer."""
    tokenizer = str(_accepted() / ARRAYS / TOKENIZER)
    return TextSpec(Tokenizer.from_file(tokenizer).get_vocab_size(), tokenizer=tokenizer)


def open_models(weights: str, key: jax.Array) -> dict[str, Model]:
    """The models that are at hand, by name; small random ones for ``"random"``."""
    if weights == RANDOM:
        keys = {OURS: key, SMOLLM2: derive(key, SMOLLM2)}
        return {name: open_weights(RANDOM, own) for name, own in keys.items()}
    found = {}
    if own_weights().is_file():
        found[OURS] = KeptModels.of_run(whole(_accepted())).published(FULL)[1]
    if has_smollm2():
        found[SMOLLM2] = load_pretrained("smollm2")
    return found


def directions(name: str, model: Model) -> list[Rows]:
    """Embeddings of tokens, and what each neuron reads and writes.

    What a neuron reads has the norm before it folded in, so that it is a direction of the stream
    up to its length.
    """
    mlp, spec = model.blocks.mlp, model.spec
    if mlp is None:
        raise ValueError(f"model={name} must have MLPs: it has no neurons")
    d_model = model.W_E.shape[1]
    reads = {"read": mlp.W_in} | ({} if mlp.W_gate is None else {"gate": mlp.W_gate})
    centred = d_model - (spec.norm == Norm.layernorm)
    found = [Rows(name, "tokens", -1, model.W_E, d_model)]
    for kind, W in reads.items():
        folded, _ = fold_read(W, None, spec.norm, model.blocks.mlp_norm)
        each = np.swapaxes(np.asarray(folded), 1, 2)
        found += [Rows(name, kind, i, jnp.asarray(x), centred) for i, x in enumerate(each)]
    return found + [Rows(name, "write", i, x, d_model) for i, x in enumerate(mlp.W_out)]


def windows_of(
    name: str, model: Model, weights: str, vectors: int, key: Key[Array, ""]
) -> Int[np.ndarray, "window n_ctx"]:
    """About as many tokens as vectors are wanted, fewer where there is less text.

    Windows of the held-out part of Python's library and reference, as long as the model reads but
    at most 128 tokens; random tokens for a random model, which reads no text.
    """
    if weights == RANDOM:
        shape = (max(vectors // _RANDOM_LENGTH, APART), _RANDOM_LENGTH)
        return np.asarray(jax.random.randint(derive(key, "windows"), shape, 0, model.d_vocab))
    if name == OURS:
        held_out = open_text(own_text()).tokens.validation
    else:
        held_out = corpus_tokens(python_corpus(), load_tokenizer(SMOLLM2)).validation
    length = min(model.n_ctx or _LONGEST_WINDOW, _LONGEST_WINDOW)
    n = max(min(vectors, len(held_out)) // length, 1)
    return spaced_windows(held_out, n, length)
