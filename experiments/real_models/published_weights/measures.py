"""Measured values of the claims on published models, or the files that would settle them.

The record holds the arrays of those parts whose weights, text or tokenizer were at hand.
"""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from circuitax.records.claims import Claim, unmet_rest
from circuitax.records.estimate import Estimate, exact
from circuitax.records.measured import Measured
from circuitax.records.null_draws import measured_again, with_data
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from experiments.real_models.published_weights.claims import (
    NEVER,
    ONE_LAYER,
    TEXT,
    TWO_LAYERS,
    WORDS,
)
from experiments.real_models.published_weights.sources import NAMES, PLACES

COMMAND = "python -m experiments.run experiment=published_weights"
UNPUBLISHED = "the weights of the paper's own models were never published"
MANY_TOKENS = 40_000  # the published models have about 50,000
PREFIX_SCORE = 0.4
REMOVALS = {"arena-without-previous", "arena-without-others"}


DRAWS = 500
SIGNS = 5000  # of 3.5 % expected, this many tell from 5 %
TOP = 100  # strongest skip-trigrams of a head
OUTS = 10 / 50_000  # share of tokens among the ten that a head raises most


def measure(record: Record) -> Measured:
    """One number for each claim, without an interval: there is one model of each kind."""
    parts = (_two_layers(record), _text(record), _one_layer(record), _words(record))
    measured: dict[str, Estimate] = {}
    unmet: dict[str, str] = {}
    not_run = unmet_rest(NEVER, {}, UNPUBLISHED)
    for part in parts:
        measured |= part.estimates
        unmet |= part.unmet
        not_run |= part.not_run
    return Measured(measured, {n: why for n, why in unmet.items() if n not in not_run}, not_run)


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: heads shuffled within layers, signs drawn anew, and chance."""
    data = record.data
    rngs = [np.random.default_rng(i) for i in range(DRAWS)]
    permuted: dict[str, Draws] = {}
    random: dict[str, Draws] = {}
    if "prefix" in data:
        altered = (with_data(record, _heads_shuffled(data, rng)) for rng in rngs)
        permuted |= measured_again(measure, altered)
        random["arena-previous"] = np.arange(data.sizes["head"], dtype=float)
    if "one_layer_copying" in data:
        some = rngs[0].binomial(TOP, 1 / 50_000, (DRAWS, data.one_layer_copies.size)).max(axis=1)
        random["published-copying-pattern"] = some / TOP
        scores = data.one_layer_copying.values
        signs = rngs[0].choice([-1.0, 1.0], size=(SIGNS, *scores.shape))
        permuted["published-most-copy"] = (signs * scores > 0.1).reshape(SIGNS, -1).mean(axis=1)
    if "skip_trigram" in data:
        named = rngs[0].random((DRAWS, *data.skip_trigram.shape)) < OUTS
        random["published-skip-trigrams"] = named.any(axis=2).mean(axis=1)
        both = rngs[0].random((DRAWS, 2, data.sizes["one_layer_head"])) < OUTS
        random["published-bug"] = both.all(axis=1).sum(axis=1, dtype=float)
    own, before = rngs[0].normal(size=(2, SIGNS))
    random["published-larger"] = before / (own + before)
    return {"permuted": permuted, "random": random}


def _heads_shuffled(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """The data with the heads of each layer in another order, the same in all variables."""
    first, second = (rng.permutation(data.sizes["head"]) for _ in range(2))
    orders = np.stack([first, second])
    changed = {
        "prefix_without": data.prefix_without.values[first][:, second],
        "composition": data.composition.values[:, first][:, :, second],
        "matching": data.matching.values[second],
    }
    for name in ("prefix", "copying", "text_prefix"):
        if name in data:
            changed[name] = np.take_along_axis(data[name].values, orders, axis=1)
    return data.assign({name: data[name].copy(data=values) for name, values in changed.items()})


def _two_layers(record: Record) -> Measured:
    """Measurements of a two-layer model on repeated random tokens."""
    data, notes = record.data, record.notes
    if "source" in notes.get("unfit", {}):
        return Measured({}, {}, unmet_rest(TWO_LAYERS, {}, notes["unfit"]["source"]))
    if "prefix" not in data:
        return _absent(TWO_LAYERS, f"weights of {NAMES['source']}", "source")
    previous, inducers = notes["previous"], notes["inducers"]
    found = data.prefix.values > PREFIX_SCORE
    known = np.zeros_like(found)
    known[1, inducers] = True
    left = data.prefix_without.isel(head=inducers).values
    intact = data.prefix.isel(layer=1, head=inducers).values
    others = np.arange(len(left)) != previous
    K, V = (data.composition.sel(kind=kind).values for kind in "KV")
    largest = np.argsort(K, axis=None)[-len(inducers) :]
    joined = [np.ravel_multi_index((previous, head), K.shape) for head in inducers]
    corner = np.minimum(data.copying.values[1], data.matching.values)
    rest = np.delete(corner, inducers)
    values = {
        "arena-copying-top-1": data.copied.sel(heads="first", k=1),
        "arena-copying-top-5": data.copied.sel(heads="first", k=5),
        "arena-both-top-1": data.copied.sel(heads="all", k=1),
        "arena-both-top-5": data.copied.sel(heads="all", k=5),
        "arena-previous": data.previous.isel(layer=0).argmax("head"),
        "arena-induction": np.sum(found != known),
        "arena-induction-score": intact[np.argmin(np.abs(intact - 0.68))],
        "arena-without-previous": left[previous].max(),
        "arena-without-others": (left[others] / intact[None]).min(),
        "arena-k-composition": len(set(largest) & set(joined)),
        "arena-v-composition": V[:, inducers].max() / K[previous, inducers].min(),
        "published-corner": corner[inducers].min() - rest.max(initial=-1),
    }
    if intact.min() < PREFIX_SCORE:  # nothing that a removal could take away
        values = {name: value for name, value in values.items() if name not in REMOVALS}
    measured = {name: exact(value) for name, value in values.items()}
    why = f"heads {inducers} of layer 1 do no induction that could be lost"
    lacking = unmet_rest(TWO_LAYERS, measured, why)
    return Measured(measured, lacking, unpublished(TWO_LAYERS, notes["source"], 2))


def _text(record: Record) -> Measured:
    """Nats that orders and layers save, and attention on text."""
    data, notes = record.data, record.notes
    if "source" in notes.get("unfit", {}):
        return Measured({}, {}, unmet_rest(TEXT, {}, notes["unfit"]["source"]))
    if "order_loss" not in data:
        return _absent(TEXT, "a two-layer model and a text in its tokens", "source", "tokens")
    order, first = data.order_loss.values, data.first_order_loss.values
    inside = np.zeros(data.text_prefix.shape, bool)
    inside[1, notes["inducers"]] = True
    prefix = data.text_prefix.values
    values = {
        "published-order-0": float(data.uniform) - order[0],
        "published-order-1": order[0] - order[1],
        "published-order-2": order[1] - order[2],
        "published-layer-0": first[2] - first[3],
        "published-layer-0-alone": first[0] - first[1],
        "published-layer-1-alone": first[0] - first[2],
        "published-layer-1": first[1] - first[3],
        "published-text-induction": prefix[inside].min() - prefix[~inside].max(),
    }
    measured = {name: exact(value) for name, value in values.items()}
    return Measured(measured, {}, unpublished(TEXT, notes["source"], 2))


def _one_layer(record: Record) -> Measured:
    """The share of heads that copy, and the share of copying among strong skip-trigrams."""
    data = record.data
    if "one_layer" in record.notes.get("unfit", {}):
        return Measured({}, {}, unmet_rest(ONE_LAYER, {}, record.notes["unfit"]["one_layer"]))
    if "one_layer_copying" not in data:
        return _absent(ONE_LAYER, f"weights of {NAMES['one_layer']}", "one_layer")
    measured = {
        "published-most-copy": exact((data.one_layer_copying > 0.1).mean()),
        "published-copying-pattern": exact(data.one_layer_copies.max()),
    }
    return Measured(measured, {}, unpublished(ONE_LAYER, record.notes["one_layer"], 1))


def _words(record: Record) -> Measured:
    """Named skip-trigrams that some head has, and heads with both bugs."""
    data = record.data
    if "one_layer" in record.notes.get("unfit", {}):
        return Measured({}, {}, unmet_rest(WORDS, {}, record.notes["unfit"]["one_layer"]))
    if "words_are_tokens" not in data:
        return _absent(WORDS, "a one-layer model and its tokenizer", "one_layer", "tokenizer")
    if not data.words_are_tokens:
        why = "the named words are not whole tokens of this tokenizer"
        return Measured({}, {}, unmet_rest(WORDS, {}, why))
    has = data.skip_trigram.values
    measured = {
        "published-skip-trigrams": exact(has.any(axis=1).mean(), len(has)),
        "published-bug": exact(data.bug.all(["which", "pair"]).sum()),
    }
    return Measured(measured, {}, unpublished(WORDS, record.notes["one_layer"], 1))


def _absent(those: tuple[Claim, ...], what: str, *fields: str) -> Measured:
    """Reasons why nothing was measured, with the command that would measure it."""
    typed = " ".join(f"{field}={PLACES[field]}" for field in fields)
    download = " and ".join(
        f"`hf download {NAMES[f]} --local-dir {PLACES[f]}`" for f in fields if f in NAMES
    )
    why = (
        f"needs {what}, not at hand: {download} (names from memory; a .pth file needs torch), then "
        f"`{COMMAND} {typed}`"
    )
    return Measured({}, {}, unmet_rest(those, {}, why))


def unpublished(
    those: tuple[Claim, ...], sizes: Mapping[str, int], n_layers: int
) -> dict[str, str]:
    """Reasons why a model of other sizes than the published one settles nothing.

    Args:
        those: The claims on the published model.
        sizes: Of the model at hand: ``n_layers``, ``n_heads``, ``d_head`` and ``d_vocab``.
        n_layers: Of the published model.
    """
    heads_fit = n_layers == 1 or (sizes["n_heads"], sizes["d_head"]) == (12, 64)
    if sizes["n_layers"] == n_layers and heads_fit and sizes["d_vocab"] > MANY_TOKENS:
        return {}
    why = (
        f"measured, but the model at hand has {sizes['n_layers']} layers, {sizes['n_heads']} heads "
        f"of {sizes['d_head']} and {sizes['d_vocab']} tokens: it is not the published one"
    )
    return unmet_rest(those, {}, why)
