"""Published models against published numbers, where their weights are at hand; no download.

ARENA's two-layer model has a previous-token head in layer 0 and two induction heads in layer 1; the
framework paper has one-layer models whose heads copy. What is at hand is measured.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Float, Int
from tokenizers import Tokenizer

from circuitax.circuits.detectors import detect, induction_scores, prefix_mask
from circuitax.circuits.losses import term_losses
from circuitax.circuits.weights.composition import KINDS, composition
from circuitax.circuits.weights.folding import fold_norms
from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.circuits.weights.spectra import composed_keys, copying_score, same_matching
from circuitax.circuits.weights.token_tables import copying_accuracy, top_triples
from circuitax.config.ranges import NotNegative, Positive
from circuitax.data.files import fingerprint
from circuitax.data.synthetic import sample_repeated
from circuitax.data.tokenizer import read_tokenizer
from circuitax.kernel.chain import chain_of, entries, materialise, rows
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import ablate_heads
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.lab.lab import Lab
from circuitax.models.pretrained import load_pretrained, weights_checksum

NAMES = {
    "source": "callummcdougall/attn_only_2L_half",
    "one_layer": "NeelNanda/Attn_Only_1L512W_C4_Code",
}
LAYERS = {"source": 2, "one_layer": 1}
# The two-layer repository holds a .pth file and no settings.
SETTINGS: dict[str, dict[str, Any] | None] = {
    "source": {
        "n_layers": 2,
        "n_heads": 12,
        "d_model": 768,
        "d_head": 64,
        "n_ctx": 2048,
        "d_vocab": 50278,
        "attn_only": True,
        "normalization_type": None,
        "positional_embedding_type": "shortformer",
    },
    "one_layer": None,
}
RANKS = (1, 5)  # shares of tokens that heads raise most, or have among the five they raise most
# (source, destination, out) that the framework paper names, as GPT-type tokenizers write them.
SKIP_TRIGRAMS = (
    *((" back", " and", " forth"), (" eat", " and", " drink"), (" far", " and", " away")),
    *(("open", '","', "rb"), ("open", '","', "wb"), ("def", "(", "self")),
    *((" for", " in", " range"), (" for", " in", " enumerate"), ("left", "\\", "right")),
    *(("lambda", "\\", "lambda"), ("nbsp", "&", "nbsp"), ("tbody", "<", "td")),
    *(("github", "/", word) for word in ("issues", "blob", "pull", "master")),
    *((" Israel", " K", "nes"), (" Ralph", " R", "alph")),
)
BUG = {
    "right": ((" keep", " in", " mind"), (" keep", " at", " bay")),
    "wrong": ((" keep", " in", " bay"), (" keep", " at", " mind")),
}


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
    previous: NotNegative = 7
    inducers: Annotated[tuple[int, ...], "[0, inf)", "distinct"] = (4, 10)
    texts: Positive = 10
    period: Positive = 50

    def outside_inputs(self) -> dict[str, str]:
        """Checksums of weights, tokenizer and text, so that new ones make another run."""
        files = {name: getattr(self, name) for name in ("tokenizer", "tokens")}
        models = {name: getattr(self, name) for name in NAMES}
        return {name: weights_checksum(place) for name, place in models.items() if place} | {
            name: fingerprint(path) for name, path in files.items() if path
        }


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Measure the models at hand: each part needs a model, a text or a tokenizer."""
    two, one = (_open(spec, name, lab) for name in NAMES)
    notes: dict[str, Any] = {"previous": spec.previous, "inducers": list(spec.inducers)}
    notes["missing"] = [name for name, at in zip(NAMES, (two, one), strict=True) if at is None]
    parts: list[xr.Dataset] = []
    if two is not None:
        notes["source"] = _sizes(two)
        parts.append(_two_layers(spec, two, key))
        if spec.tokens:
            parts.append(_text(spec, two))
    if one is not None:
        notes["one_layer"] = _sizes(one)
        parts.append(_one_layer(one))
        if spec.tokenizer:
            parts.append(_words(spec, one))
    return xr.merge(parts).assign_attrs(notes)


def _open(spec: Spec, name: str, lab: Lab) -> Model | None:
    """The model of a field; None where there is none, or the usual one is not at hand."""
    place = getattr(spec, name)
    if not place:
        return None
    try:
        model = load_pretrained(place, config=SETTINGS[name], dtype="float32")
    except FileNotFoundError as error:
        if place != NAMES[name]:
            raise ValueError(f"{name}: {error}") from None
        lab.log(f"{name}={place} is not at hand: its rows are not tested")
        return None
    if model.n_layers != LAYERS[name] or (name == "source" and model.blocks.mlp is not None):
        raise ValueError(
            f"{name}={place!r} has {model.n_layers} layers, must have {LAYERS[name]}, and the "
            "two-layer model no MLPs"
        )
    if name == "source" and max(spec.previous, *spec.inducers) >= model.n_heads:
        raise ValueError(f"previous and inducers must name heads below n_heads={model.n_heads}")
    return model


def _sizes(model: Model) -> dict[str, int]:
    """Sizes that distinguish a model from the published ones."""
    spec = model.spec
    return {"n_heads": spec.n_heads, "d_head": spec.head_width, "d_vocab": spec.d_vocab}


def _two_layers(spec: Spec, model: Model, key: jax.Array) -> xr.Dataset:
    """Scores of a two-layer model, and prefix scores without each head of layer 0."""
    n = model.d_vocab - 1
    period = min(spec.period, ((model.n_ctx or 1024) - 1) // 2, n)
    twice = sample_repeated(
        *(derive(key, "repeats"), spec.texts, 2 * period, n),
        min_period=period,
        max_period=period,
        distinct=True,
    )
    texts = jnp.pad(twice.tokens + 1, ((0, 0), (1, 0)))  # token 0 is the start
    # A gain before positions that enter queries and keys cannot be folded into them.
    if not (model.spec.positions.in_queries_and_keys and model.blocks.attention_norm is not None):
        model = fold_norms(model)
    ov = token_ov(model)
    W_E, W_V, W_O, W_U = ov.factors

    def copied(chosen: list[int]) -> list[float]:
        width = jnp.concatenate([W_V[1, head] for head in chosen], axis=-1)
        back = jnp.concatenate([W_O[1, head] for head in chosen], axis=-2)
        chain = chain_of(W_E, width, back, W_U)
        return [float(jax.jit(partial(copying_accuracy, k=k))(chain)) for k in RANKS]

    scores = jax.jit(induction_scores)(model, texts)
    without = jax.jit(_prefix_without)(model, texts, jnp.eye(model.n_heads))
    matching = same_matching(*composed_keys(model, (0, spec.previous), 1))[1]
    found: dict[str, tuple[Any, Any]] = {
        "copied": (("heads", "k"), [copied([spec.inducers[0]]), copied(list(spec.inducers))]),
        "prefix": (("layer", "head"), scores.prefix),
        "previous": (("layer", "head"), scores.previous),
        "prefix_without": (("removed", "head"), without),
        "composition": (("kind", "writer", "reader"), composition(model).score[:, 0, :, 1, :]),
        "copying": (("layer", "head"), copying_score(ov)),
        "matching": ("head", matching),
    }
    return xr.Dataset(
        {name: (dims, np.asarray(values)) for name, (dims, values) in found.items()},
        coords={"heads": ["first", "all"], "k": list(RANKS), "kind": list(KINDS)},
    )


def _prefix_without(model: Model, texts: Array, off: Array) -> Float[Array, "removed head"]:
    """Prefix scores of layer 1 with one head of layer 0 removed at a time."""

    def one(mask: Array) -> Array:
        removed = ablate_heads(jnp.stack([mask, jnp.zeros_like(mask)]))

        def score(text: Array) -> Array:
            pattern = forward(model, text, removed)[1].patterns
            return detect(pattern, prefix_mask(text)).score[1]

        return jax.lax.map(score, texts).mean(axis=0)

    return jax.lax.map(one, off)


def _text(spec: Spec, model: Model) -> xr.Dataset:
    """Losses by order and by layer, and prefix scores, on real text."""
    windows = np.load(Path(spec.tokens).expanduser(), allow_pickle=False)
    longest = model.n_ctx or windows.shape[-1]
    if windows.ndim != 2 or windows.shape[1] > longest or windows.max() >= model.d_vocab:
        raise ValueError(
            f"tokens={spec.tokens!r} has shape {windows.shape} and ids up to {windows.max()}, must "
            f"be [windows, n_ctx <= {longest}] of ids below {model.d_vocab}"
        )

    def one(text: Array) -> tuple[Array, Array, Array]:
        seen = run_model(model, text)
        losses = term_losses(seen)
        prefix = detect(seen.trace.patterns, prefix_mask(text)).score
        return losses.order.mean(axis=1), losses.first_order.mean(axis=1), prefix

    found = jax.jit(lambda texts: jax.lax.map(one, texts))(jnp.asarray(windows))
    order, first, prefix = (np.asarray(values.mean(axis=0)) for values in found)
    return xr.Dataset(
        {
            "order_loss": ("order", order),
            "first_order_loss": ("selection", first),
            "text_prefix": (("layer", "head"), prefix),
        }
    )


def _one_layer(model: Model, k: int = 100) -> xr.Dataset:
    """Eigenvalue score of each head, and how many top skip-trigrams of it repeat a token."""
    qk, ov = token_qk(model), token_ov(model)
    find = jax.jit(partial(top_triples, k=min(k, model.d_vocab)))
    strongest = [find(qk[0, head], ov[0, head]) for head in range(model.n_heads)]
    copies = [float((top.out == top.source).mean()) for top in strongest]
    found = {"one_layer_copying": np.asarray(copying_score(ov))[0], "one_layer_copies": copies}
    return xr.Dataset({name: ("one_layer_head", values) for name, values in found.items()})


def _words(spec: Spec, model: Model) -> xr.Dataset:
    """Named skip-trigrams and bugs that heads have, where the words are tokens."""
    # Any tokenizer: those of GPT-NeoX name the start of a text otherwise than a corpus does.
    file = Path(spec.tokenizer).expanduser()
    tokenizer = read_tokenizer(file, f"tokenizer={spec.tokenizer!r} must be a tokenizer.json")
    triples = _ids(tokenizer, SKIP_TRIGRAMS, model.d_vocab)
    bugs = [_ids(tokenizer, pairs, model.d_vocab) for pairs in BUG.values()]
    if not len(triples) or any(len(ids) < 2 for ids in bugs):
        return xr.Dataset({"words_are_tokens": False})
    return xr.Dataset(
        {
            "words_are_tokens": True,
            "skip_trigram": (("triple", "one_layer_head"), _heads_with(model, triples)),
            "bug": (
                ("which", "pair", "one_layer_head"),
                np.stack([_heads_with(model, ids) for ids in bugs]),
            ),
        },
        coords={"which": list(BUG)},
    )


def _heads_with(
    model: Model, triples: Int[Array, "n 3"], k: int = 10
) -> Bool[np.ndarray, "n head"]:
    """Heads of layer 0 with (source, destination, out): positive score, out in the top k."""
    source, dest, out = triples.T
    attended = entries(token_qk(model), dest, source)[0] > 0
    raised = materialise(rows(token_ov(model), source), max_entries=2**28)[0]
    own = jnp.take_along_axis(raised, out[None, :, None], axis=-1)
    has = attended & ((raised > own).sum(axis=-1) < k) & (own[..., 0] > 0)
    return np.asarray(has).T


def _ids(
    tokenizer: Tokenizer, triples: tuple[tuple[str, str, str], ...], d_vocab: int
) -> Int[Array, "n 3"]:
    """Triples of single-token words in the model's vocabulary; no unknown words."""
    unknown = getattr(tokenizer.model, "unk_token", None)
    whole = []
    for triple in triples:
        words = [tokenizer.encode(word, add_special_tokens=False) for word in triple]
        ids = [word.ids[0] for word in words if len(word.ids) == 1 and word.tokens != [unknown]]
        if len(ids) == 3 and max(ids) < d_vocab:
            whole.append(ids)
    return jnp.array(whole, int).reshape(-1, 3)
