"""Published models against published numbers, where their weights are at hand; no download.

ARENA's two-layer model has a previous-token head in layer 0 and two induction heads in layer 1; the
framework paper has one-layer models whose heads copy. What is at hand is measured; for the rest the
settled claims say which command fetches it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from tokenizers import Tokenizer

from circuitax.circuits.composition import KINDS
from circuitax.circuits.folding import fold_norms
from circuitax.data.fingerprint import fingerprint
from circuitax.data.tokenizer import boundary_id, load_tokenizer
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import require_at_least
from circuitax.lab.lab import Lab
from circuitax.models.pretrained import load_pretrained, weights_checksum
from circuitax.records.record import Record
from experiments.published_weights.readings import (
    RANKS,
    of_one_layer,
    of_text,
    of_two_layers,
    of_words,
    repeated_texts,
)
from experiments.published_weights.sources import BUG, NAMES, PRINTED, SETTINGS, SKIP_TRIGRAMS

BUDGET_SECONDS = 10
PAPER_SECONDS = 600  # by its work against quick scale; not run


@dataclass(frozen=True)
class Spec:
    """Where the models are.

    Attributes:
        source: Two-layer model: a folder, or a repository in the local Hugging Face cache. The
            default names ARENA's, the repository's name from memory.
        one_layer: One-layer model, likewise.
        tokenizer: The models' ``tokenizer.json``; empty for none.
        tokens: Text for the two-layer model as a ``.npy`` of token ids, ``[windows, n_ctx]``; empty
            for none.
        previous: Its previous-token head, in layer 0.
        inducers: Its induction heads, in layer 1; the first is the one tabled alone.
        texts: Repeated random texts to measure on.
        period: Tokens before they repeat.
    """

    source: str = NAMES["source"]
    one_layer: str = NAMES["one_layer"]
    tokenizer: str = ""
    tokens: str = ""
    previous: int = 7
    inducers: tuple[int, ...] = (4, 10)
    texts: int = 10
    period: int = 50

    def __post_init__(self) -> None:
        require_at_least(self, 1, "texts", "period")
        require_at_least(self, 0, "previous", "inducers")
        if not self.inducers:
            raise ValueError(f"inducers={self.inducers} must name a head or more")

    def outside_inputs(self) -> dict[str, str]:
        """Checksums of weights, tokenizer and text, so that new ones are another run."""
        files = {name: getattr(self, name) for name in ("tokenizer", "tokens")}
        return {name: weights_checksum(getattr(self, name)) for name in ("source", "one_layer")} | {
            name: fingerprint(path) for name, path in files.items() if path
        }


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Measure what is at hand: each part of the data needs a model, a text or a tokenizer."""
    notes: dict[str, Any] = {"previous": spec.previous, "inducers": list(spec.inducers)}
    models = {name: _open(spec, name) for name in NAMES}
    for name, model in models.items():
        if model is None:
            lab.log(f"{name}={getattr(spec, name)} is not at hand: its claims are not run")
        else:
            notes[name] = sizes(model.spec)
    two, one = models["source"], models["one_layer"]
    parts = [xr.Dataset({"printed": ("table", list(PRINTED.values()))}, {"table": list(PRINTED)})]
    if two is not None:
        parts.append(_two_layers(spec, two, key))
        if spec.tokens:
            parts.append(_text(spec, two))
    if one is not None:
        parts.append(_one_layer(one))
        if spec.tokenizer:
            parts.append(_words(spec, one))
    return Record(data=xr.merge(parts), notes=notes)


def sizes(spec: TransformerSpec) -> dict[str, int]:
    """What tells a model from the published ones."""
    return {
        "n_layers": spec.n_layers,
        "n_heads": spec.n_heads,
        "d_head": spec.head_width,
        "d_vocab": spec.d_vocab,
    }


def _open(spec: Spec, name: str) -> Model | None:
    try:
        return load_pretrained(getattr(spec, name), config=SETTINGS[name])
    except FileNotFoundError:
        return None


def _two_layers(spec: Spec, model: Model, key: jax.Array) -> xr.Dataset:
    if model.n_layers != 2 or max(spec.previous, *spec.inducers) >= model.n_heads:
        raise ValueError(
            f"source={spec.source!r} has n_layers={model.n_layers} and n_heads={model.n_heads}, "
            f"must have 2 layers and heads previous={spec.previous}, inducers={spec.inducers}"
        )
    texts = repeated_texts(
        derive(key, "repeats"), spec.texts, spec.period, model.n_ctx or 1024, model.d_vocab
    )
    found = of_two_layers(fold_norms(model), spec.previous, spec.inducers, texts)
    axes: dict[str, tuple[str, ...]] = {
        "copied": ("heads", "k"),
        "prefix": ("layer", "head"),
        "previous": ("layer", "head"),
        "prefix_without": ("removed", "head"),
        "composition": ("kind", "writer", "reader"),
        "copying": ("layer", "head"),
        "matching": ("head",),
    }
    return xr.Dataset(
        {name: (axes[name], values) for name, values in found.items()},
        coords={"heads": ["first", "all"], "k": list(RANKS), "kind": list(KINDS)},
    )


def _text(spec: Spec, model: Model) -> xr.Dataset:
    windows = np.load(Path(spec.tokens).expanduser())
    longest = model.n_ctx or windows.shape[-1]
    if windows.ndim != 2 or windows.shape[1] > longest or windows.max() >= model.d_vocab:
        raise ValueError(
            f"tokens={Path(spec.tokens).name!r} has shape {windows.shape} and ids up to "
            f"{windows.max()}, must be [windows, n_ctx <= {longest}] of ids below {model.d_vocab}"
        )
    found = of_text(model, jnp.asarray(windows))
    return xr.Dataset(
        {
            "order_loss": ("order", found["order_loss"]),
            "first_order_loss": ("selection", found["first_order_loss"]),
            "text_prefix": (("layer", "head"), found["text_prefix"]),
            "uniform": np.log(model.d_vocab),
        }
    )


def _one_layer(model: Model) -> xr.Dataset:
    if model.n_layers != 1:
        raise ValueError(f"one_layer has n_layers={model.n_layers}, must be 1")
    found = of_one_layer(model)
    return xr.Dataset({name: ("one_layer_head", values) for name, values in found.items()})


def _words(spec: Spec, model: Model) -> xr.Dataset:
    tokenizer = load_tokenizer(Path(spec.tokenizer).expanduser())
    triples = _ids(tokenizer, SKIP_TRIGRAMS)
    bugs = {which: _ids(tokenizer, pairs) for which, pairs in BUG.items()}
    if not len(triples) or any(len(ids) < 2 for ids in bugs.values()):
        return xr.Dataset({"words_are_tokens": False})
    has = {which: of_words(model, ids) for which, ids in bugs.items()}
    return xr.Dataset(
        {
            "words_are_tokens": True,
            "skip_trigram": (("triple", "one_layer_head"), of_words(model, triples)),
            "bug": (("which", "pair", "one_layer_head"), np.stack(list(has.values()))),
        },
        coords={"which": list(has)},
    )


def _ids(tokenizer: Tokenizer, triples: tuple[tuple[str, str, str], ...]) -> jax.Array:
    """Those triples whose words are one token each; unknown words may read as the boundary."""
    encoded = [[tokenizer.encode(word).ids for word in triple] for triple in triples]
    unknown = [boundary_id(tokenizer)]
    whole = [ids for ids in encoded if all(len(i) == 1 and i != unknown for i in ids)]
    return jnp.array(whole, int).reshape(-1, 3)
