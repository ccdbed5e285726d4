"""Published models against published numbers, where their weights are at hand; no download.

ARENA's two-layer model has a previous-token head in layer 0 and two induction heads in layer 1; the
framework paper has one-layer models whose heads copy. What is at hand is measured; for the rest the
settled claims say which command fetches it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpy.lib.format import MAGIC_PREFIX
from tokenizers import Tokenizer

from circuitax.circuits.weights.composition import KINDS
from circuitax.circuits.weights.folding import fold_norms
from circuitax.data.files import fingerprint
from circuitax.data.tokenizer import check_tokenizer_file, read_tokenizer
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import require_at_least
from circuitax.kit.memory import require_memory
from circuitax.lab.lab import Lab
from circuitax.models.pretrained import load_pretrained, weights_checksum
from circuitax.models.sources import find_source
from circuitax.records.record import Record
from experiments.real_models.published_weights.readings import (
    RANKS,
    of_one_layer,
    of_text,
    of_two_layers,
    of_words,
    repeated_texts,
)
from experiments.real_models.published_weights.sources import (
    BUG,
    NAMES,
    PRINTED,
    SETTINGS,
    SKIP_TRIGRAMS,
)

ENDINGS = (".safetensors", ".pth", ".gguf")


@dataclass(frozen=True)
class Spec:
    """Locations of the models.

    Attributes:
        source: Two-layer model: a folder or a weight file, or a repository in the local Hugging
            Face cache; empty for none. The default names ARENA's, the repository's name from
            memory, and may be absent; anything else must be there.
        one_layer: One-layer model, likewise.
        tokenizer: The models' ``tokenizer.json``, of any kind; empty for none.
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
        for name, usual in NAMES.items():
            if getattr(self, name) not in ("", usual):
                _require_weights(name, getattr(self, name))
        if self.tokenizer:
            check_tokenizer_file(self.tokenizer)
        if self.tokens:
            _require_array("tokens", self.tokens)

    def outside_inputs(self) -> dict[str, str]:
        """Checksums of weights, tokenizer and text, so that new ones make another run."""
        files = {name: getattr(self, name) for name in ("tokenizer", "tokens")}
        models = {name: getattr(self, name) for name in NAMES}
        return {name: weights_checksum(place) for name, place in models.items() if place} | {
            name: fingerprint(path) for name, path in files.items() if path
        }


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Measure the models at hand: each part needs a model, a text or a tokenizer."""
    notes: dict[str, Any] = {"previous": spec.previous, "inducers": list(spec.inducers)}
    models = {name: _open(spec, name) for name in NAMES}
    for name, model in models.items():
        if model is None:
            lab.log(f"{name}={getattr(spec, name)} is not at hand: its claims are not run")
        else:
            notes[name] = sizes(model.spec)
    notes["unfit"] = _unfit(spec, models)
    models = {name: None if name in notes["unfit"] else models[name] for name in NAMES}
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
    """Sizes that distinguish a model from the published ones."""
    return {
        "n_layers": spec.n_layers,
        "n_heads": spec.n_heads,
        "d_head": spec.head_width,
        "d_vocab": spec.d_vocab,
    }


def _require_weights(name: str, place: str) -> None:
    """Refuse a name at which there can be no model, before any work."""
    path = Path(place).expanduser()
    if not path.exists():
        try:
            find_source(place, SETTINGS[name])
        except FileNotFoundError as error:
            raise ValueError(f"{name}: {error}") from None
        return
    files = path.iterdir() if path.is_dir() else [path]
    if not any(file.suffix in ENDINGS for file in files):
        raise ValueError(
            f"{name}={place!r} must be a folder with a model or a weight file: there is no "
            f"{' or '.join(ENDINGS)}"
        )


def _require_array(name: str, path: str) -> None:
    """Refuse a path without a file, or with one that does not begin as arrays of NumPy do."""
    try:
        with Path(path).expanduser().open("rb") as file:
            kind = file.read(len(MAGIC_PREFIX))
    except OSError:
        raise ValueError(f"{name}={path!r} must be a .npy file: there is no such file") from None
    if kind != MAGIC_PREFIX:
        raise ValueError(f"{name}={path!r} must be a .npy file: it is of another kind")


def _open(spec: Spec, name: str) -> Model | None:
    place = getattr(spec, name)
    if not place:
        return None
    try:
        return load_pretrained(place, config=SETTINGS[name])
    except FileNotFoundError:
        return None


def _unfit(spec: Spec, models: Mapping[str, Model | None]) -> dict[str, str]:
    """Reason that a model at hand is unfit for its claims, by field."""
    found: dict[str, str] = {}
    two, one = models["source"], models["one_layer"]
    last = max(spec.previous, *spec.inducers)
    if two is not None and two.n_layers != 2:
        found["source"] = f"the model at hand has {two.n_layers} layers, must have 2"
    elif two is not None and two.blocks.mlp is not None:
        found["source"] = "the model at hand has MLPs, must be attention-only"
    elif two is not None and last >= two.n_heads:
        found["source"] = (
            f"the model at hand has {two.n_heads} heads, none {last}: name its own by previous= "
            "and inducers="
        )
    if one is not None and one.n_layers != 1:
        found["one_layer"] = f"the model at hand has {one.n_layers} layers, must have 1"
    return found


def _foldable(model: Model) -> Model:
    """The model with its norms folded; as it is where positions follow a norm with a gain."""
    spec = model.spec
    if spec.positions.in_queries_and_keys and model.blocks.attention_norm is not None:
        return model
    return fold_norms(model)


def _two_layers(spec: Spec, model: Model, key: jax.Array) -> "xr.Dataset":
    length = 2 * min(spec.period, (model.n_ctx or 1024) // 2)
    require_memory(spec, spec.texts * length * model.d_vocab, "texts", "period")
    texts = repeated_texts(
        derive(key, "repeats"), spec.texts, spec.period, model.n_ctx or 1024, model.d_vocab
    )
    found = of_two_layers(_foldable(model), spec.previous, spec.inducers, texts)
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


def _text(spec: Spec, model: Model) -> "xr.Dataset":
    try:
        windows = np.load(Path(spec.tokens).expanduser(), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"tokens={spec.tokens!r} must be a .npy file: {error}") from None
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


def _one_layer(model: Model) -> "xr.Dataset":
    found = of_one_layer(model)
    return xr.Dataset({name: ("one_layer_head", values) for name, values in found.items()})


def _words(spec: Spec, model: Model) -> "xr.Dataset":
    # Any tokenizer: those of GPT-NeoX name the start of a text otherwise than a corpus does.
    file = Path(spec.tokenizer).expanduser()
    tokenizer = read_tokenizer(file, f"tokenizer={spec.tokenizer!r} must be a tokenizer.json")
    triples = _ids(tokenizer, SKIP_TRIGRAMS, model.d_vocab)
    bugs = {which: _ids(tokenizer, pairs, model.d_vocab) for which, pairs in BUG.items()}
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


def _ids(
    tokenizer: Tokenizer, triples: tuple[tuple[str, str, str], ...], d_vocab: int
) -> jax.Array:
    """Triples of single-token words in the model's vocabulary; no unknown words."""
    unknown = getattr(tokenizer.model, "unk_token", None)
    whole = []
    for triple in triples:
        words = [tokenizer.encode(word, add_special_tokens=False) for word in triple]
        ids = [word.ids[0] for word in words if len(word.ids) == 1 and word.tokens != [unknown]]
        if len(ids) == 3 and max(ids) < d_vocab:
            whole.append(ids)
    return jnp.array(whole, int).reshape(-1, 3)
