"""Published models against published numbers, where their weights are at hand; no download."""

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
from circuitax.kernel.weights import TransformerWeights
from circuitax.lab.lab import Lab
from circuitax.models.pretrained import load_pretrained, weights_checksum
from circuitax.models.specs import TransformerSpec
from circuitax.records.claims import Claim
from circuitax.records.estimate import Estimate
from circuitax.records.record import Record
from experiments.published_weights import claims
from experiments.published_weights.claims import CLAIMS as CLAIMS
from experiments.published_weights.readings import (
    RANKS,
    of_one_layer,
    of_text,
    of_two_layers,
    of_words,
    repeated_texts,
)

BUDGET_SECONDS = 10
PAPER_SECONDS = 600  # by its work against quick scale; not run
COMMAND = "python -m experiments.run experiment=published_weights"
NAMES = {
    "source": "callummcdougall/attn_only_2L_half",
    "one_layer": "NeelNanda/Attn_Only_1L512W_C4_Code",
}
# The two-layer repository holds a .pth alone.
SETTINGS = {
    "source": {
        "n_layers": 2, "n_heads": 12, "d_model": 768, "d_head": 64, "n_ctx": 2048,
        "d_vocab": 50278, "attn_only": True, "normalization_type": None,
        "positional_embedding_type": "shortformer",
    },
    "one_layer": None,
}  # fmt: skip
PLACES = {
    "source": "weights/two_layers",
    "one_layer": "weights/one_layer",
    "tokens": "text.npy",
    "tokenizer": "tokenizer.json",
}
NEVER = "the weights of the paper's own models were never published"
MANY_TOKENS = 40_000  # the published models have about 50,000
# (source, destination, out) that the framework paper names, as GPT-type tokenizers write them.
SKIP_TRIGRAMS = (
    (" back", " and", " forth"), (" eat", " and", " drink"), (" far", " and", " away"),
    ("open", '","', "rb"), ("open", '","', "wb"), ("def", "(", "self"), (" for", " in", " range"),
    (" for", " in", " enumerate"), ("left", "\\", "right"), ("lambda", "\\", "lambda"),
    ("nbsp", "&", "nbsp"), ("tbody", "<", "td"), ("github", "/", "issues"),
    ("github", "/", "blob"), ("github", "/", "pull"), ("github", "/", "master"),
    (" Israel", " K", "nes"), (" Ralph", " R", "alph"),
)  # fmt: skip
BUG = {
    "right": ((" keep", " in", " mind"), (" keep", " at", " bay")),
    "wrong": ((" keep", " in", " bay"), (" keep", " at", " mind")),
}


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
        for name in ("texts", "period"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if not self.inducers or min(self.inducers) < 0 or self.previous < 0:
            raise ValueError(
                f"inducers={self.inducers} must name a head or more, and previous={self.previous} "
                "one, all from 0"
            )

    def outside_inputs(self) -> dict[str, str]:
        """Checksums of weights, tokenizer and text, so that new ones are another run."""
        files = {name: getattr(self, name) for name in ("tokenizer", "tokens")}
        return {name: weights_checksum(getattr(self, name)) for name in ("source", "one_layer")} | {
            name: fingerprint(path) for name, path in files.items() if path
        }


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Measure what is at hand, and say of the rest what would settle it."""
    measured: dict[str, Estimate] = {}
    unmet = {claim.id: NEVER for claim in claims.NEVER}
    printed = {claim.id: claim.expected for claim in claims.TWO_LAYERS[:4]}
    middle = [(interval.low + interval.high) / 2 for interval in printed.values()]
    datasets = [xr.Dataset({"printed": ("table", middle)}, coords={"table": list(printed)})]
    two, one = (_open(getattr(spec, name), SETTINGS[name]) for name in ("source", "one_layer"))
    for part in (_two_layers(spec, two, key), _text(spec, two), _one_layer(one), _words(spec, one)):
        data, values, reasons = part
        datasets.append(data)
        measured |= values
        unmet |= reasons
    for reason in dict.fromkeys(unmet.values()):
        lab.log(f"{list(unmet.values()).count(reason)} claims: {reason}")
    return Record(data=xr.merge(datasets), measured=measured, unmet=unmet)


Model = tuple[TransformerSpec, TransformerWeights]
Part = tuple[xr.Dataset, dict[str, Estimate], dict[str, str]]


def _open(source: str, settings: dict[str, Any] | None) -> Model | None:
    try:
        return load_pretrained(source, config=settings)
    except FileNotFoundError:
        return None


def _two_layers(spec: Spec, model: Model | None, key: jax.Array) -> Part:
    if model is None:
        return _absent(claims.TWO_LAYERS, f"weights of {NAMES['source']}", "source")
    sizes, weights = model
    if sizes.n_layers != 2 or max(spec.previous, *spec.inducers) >= sizes.n_heads:
        raise ValueError(
            f"source={spec.source!r} has n_layers={sizes.n_layers} and n_heads={sizes.n_heads}, "
            f"must have 2 layers and heads previous={spec.previous}, inducers={spec.inducers}"
        )
    texts = repeated_texts(
        derive(key, "repeats"), spec.texts, spec.period, sizes.n_ctx or 1024, sizes.d_vocab
    )
    weights, forward_spec = fold_norms(weights, sizes.forward_spec())
    found = of_two_layers(weights, forward_spec, spec.previous, spec.inducers, texts)
    axes: dict[str, tuple[str, ...]] = {
        "copied": ("heads", "k"),
        "prefix": ("layer", "head"),
        "previous": ("layer", "head"),
        "prefix_without": ("removed", "head"),
        "composition": ("kind", "writer", "reader"),
        "copying": ("layer", "head"),
        "matching": ("head",),
    }
    data = xr.Dataset(
        {name: (axes[name], values) for name, values in found.items()},
        coords={"heads": ["first", "all"], "k": list(RANKS), "kind": list(KINDS)},
    )
    measured = claims.two_layer_estimates(data, spec.previous, spec.inducers)
    lacking = {
        claim.id: f"heads {list(spec.inducers)} of layer 1 do no induction that could be lost"
        for claim in claims.TWO_LAYERS
        if claim.quantity not in measured
    }
    return data, measured, lacking | _other(claims.TWO_LAYERS, sizes, 2)


def _text(spec: Spec, model: Model | None) -> Part:
    if model is None or not spec.tokens:
        return _absent(
            claims.TEXT, "a two-layer model and a text in its tokens", "source", "tokens"
        )
    sizes, weights = model
    windows = np.load(Path(spec.tokens).expanduser())
    longest = sizes.n_ctx or windows.shape[-1]
    if windows.ndim != 2 or windows.shape[1] > longest or windows.max() >= sizes.d_vocab:
        raise ValueError(
            f"tokens={Path(spec.tokens).name!r} has shape {windows.shape} and ids up to "
            f"{windows.max()}, must be [windows, n_ctx <= {longest}] of ids below {sizes.d_vocab}"
        )
    found = of_text(weights, sizes.forward_spec(), jnp.asarray(windows))
    data = xr.Dataset(
        {
            "order_loss": ("order", found["order_loss"]),
            "first_order_loss": ("selection", found["first_order_loss"]),
            "text_prefix": (("layer", "head"), found["text_prefix"]),
            "uniform": np.log(sizes.d_vocab),
        }
    )
    return data, claims.text_estimates(data, spec.inducers), _other(claims.TEXT, sizes, 2)


def _one_layer(model: Model | None) -> Part:
    if model is None:
        return _absent(claims.ONE_LAYER, f"weights of {NAMES['one_layer']}", "one_layer")
    sizes, weights = model
    if sizes.n_layers != 1:
        raise ValueError(f"one_layer has n_layers={sizes.n_layers}, must be 1")
    found = of_one_layer(weights, sizes.forward_spec())
    data = xr.Dataset({name: ("one_layer_head", values) for name, values in found.items()})
    return data, claims.one_layer_estimates(data), _other(claims.ONE_LAYER, sizes, 1)


def _words(spec: Spec, model: Model | None) -> Part:
    if model is None or not spec.tokenizer:
        needed = "a one-layer model and its tokenizer"
        return _absent(claims.WORDS, needed, "one_layer", "tokenizer")
    sizes, weights = model
    tokenizer = load_tokenizer(Path(spec.tokenizer).expanduser())
    triples = _ids(tokenizer, SKIP_TRIGRAMS)
    bugs = {which: _ids(tokenizer, pairs) for which, pairs in BUG.items()}
    if not len(triples) or any(len(ids) < 2 for ids in bugs.values()):
        why = "the named words are not whole tokens of this tokenizer"
        return xr.Dataset(), {}, {claim.id: why for claim in claims.WORDS}
    forward_spec = sizes.forward_spec()
    named = of_words(weights, forward_spec, triples)
    has = {which: of_words(weights, forward_spec, ids) for which, ids in bugs.items()}
    data = xr.Dataset(
        {
            "skip_trigram": (("triple", "one_layer_head"), named),
            "bug": (("which", "pair", "one_layer_head"), np.stack(list(has.values()))),
        },
        coords={"which": list(has)},
    )
    measured = claims.word_estimates(data)
    lacking = {c.id: "no head has both" for c in claims.WORDS if c.quantity not in measured}
    return data, measured, lacking | _other(claims.WORDS, sizes, 1)


def _ids(tokenizer: Tokenizer, triples: tuple[tuple[str, str, str], ...]) -> jax.Array:
    """Those triples whose words are one token each; unknown words may read as the boundary."""
    encoded = [[tokenizer.encode(word).ids for word in triple] for triple in triples]
    unknown = [boundary_id(tokenizer)]
    whole = [ids for ids in encoded if all(len(i) == 1 and i != unknown for i in ids)]
    return jnp.array(whole, int).reshape(-1, 3)


def _absent(those: tuple[Claim, ...], what: str, *fields: str) -> Part:
    typed = " ".join(f"{field}={PLACES[field]}" for field in fields)
    download = " and ".join(f"`hf download {NAMES[f]} --local-dir {PLACES[f]}`" for f in fields
                            if f in NAMES)  # fmt: skip
    why = (
        f"needs {what}, not at hand: {download} (names from memory; a .pth file needs torch), then "
        f"`{COMMAND} {typed}`"
    )
    return xr.Dataset(), {}, {claim.id: why for claim in those}


def _other(those: tuple[Claim, ...], sizes: TransformerSpec, n_layers: int) -> dict[str, str]:
    """Reasons why a model of other sizes than the published one settles nothing."""
    heads_fit = n_layers == 1 or (sizes.n_heads, sizes.head_width) == (12, 64)
    if sizes.n_layers == n_layers and heads_fit and sizes.d_vocab > MANY_TOKENS:
        return {}
    why = (
        f"measured, but the model at hand has {sizes.n_layers} layers, {sizes.n_heads} heads of "
        f"{sizes.head_width} and {sizes.d_vocab} tokens: it is not the published one"
    )
    return {claim.id: why for claim in those}
