"""Heads of SmolLM2-135M on random tokens that come twice: their attention and their worth.

The heads that match prefixes are removed, the previous-token heads, and as many random heads, again
and again; and the keys are spoilt, to see which token a match is made of. Weights alone say how
much of what the previous-token heads write the others read as keys, at the offset at which the
texts repeat. On prose, the same heads are removed.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Float, Int

from circuitax.circuits.detectors import detect
from circuitax.circuits.paths.components import attribute, over_mean_token
from circuitax.circuits.weights.composition import composition
from circuitax.circuits.weights.folding import fold_norms
from circuitax.config.ranges import Positive
from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.interventions import ablate_heads
from circuitax.kernel.keys import host_generator
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as forward_run
from circuitax.kit.real_model import at_hand, missing, open_weights, text_excerpts
from circuitax.lab.lab import Lab
from experiments.real_models.real_induction.repeats import (
    KINDS,
    PREFIX,
    PREVIOUS,
    repeats,
)
from experiments.real_models.shared.real_spec import RealSpec


@dataclass(frozen=True)
class Spec(RealSpec):
    """The model, and its texts.

    Attributes:
        texts: Rows of random tokens.
        length: Tokens of one copy.
        top: Heads that are removed together.
        draws: Random sets of as many heads.
        chapters: Stretches of prose, one from a chapter.
        stretch: Tokens of a stretch.
    """

    texts: Annotated[int, "[2, inf)"] = 4
    length: Annotated[int, "[4, inf)"] = 64
    top: Positive = 5
    draws: Annotated[int, "[2, inf)"] = 10
    chapters: Annotated[int, "[2, inf)"] = 12
    stretch: Annotated[int, "[8, inf)"] = 128


class Reading(NamedTuple):
    """One pass over one text; ``direct`` is what a head adds to the right logit at a match."""

    losses: Float[Array, " n_losses"]
    scores: Float[Array, "kinds layers heads"]
    direct: Float[Array, "layers heads"]


@jax.jit
def read(
    model: Model,
    text: Int[Array, " n_ctx"],
    ablated: Float[Array, "layers heads"],
    masks: Bool[Array, "kinds dest src"],
) -> Reading:
    """Losses, attention on each mask, and direct effects, with some heads removed."""
    seen = forward_run(model, text, ablate_heads(ablated), outputs=True)
    scores = jnp.stack([detect(seen.trace.patterns, mask).score for mask in masks])
    given = attribute(over_mean_token(seen), jnp.roll(text, -1)).parts.heads
    matches = masks[KINDS.index(PREFIX)].any(axis=-1)
    direct = jnp.where(matches, given, 0).sum(axis=-1) / matches.sum()
    return Reading(next_token_losses(seen.logits, text), scores, direct)


@jax.jit
def prose_losses(
    model: Model, text: Int[Array, " n_ctx"], ablated: Float[Array, "sets layers heads"]
) -> Float[Array, "sets n_losses"]:
    """Losses on one text with each set of heads removed."""

    def one(marks: Float[Array, "layers heads"]) -> Array:
        return next_token_losses(forward(model, text, ablate_heads(marks))[0], text)

    return jax.lax.map(one, ablated)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Read the model, remove heads, spoil keys; without the package say how to get it."""
    weights_key, draws_key = jax.random.split(key)
    notes = at_hand(spec.weights, lab)
    if notes["missing"]:
        return xr.Dataset(attrs=notes)
    model = open_weights(spec.weights, weights_key)
    texts = repeats(spec.texts, spec.length, model.d_vocab)
    masks = jnp.asarray(texts.masks)
    n_heads, n = model.n_heads, spec.length
    nothing = np.zeros((model.n_layers, n_heads))

    def on_texts(rows: np.ndarray, ablated: np.ndarray) -> Reading:
        each = [read(model, jnp.asarray(row), jnp.asarray(ablated, float), masks) for row in rows]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *each)

    plain = on_texts(texts.plain, nothing)
    spoilt = on_texts(texts.spoilt, nothing)
    mean = np.asarray(plain.scores).mean(axis=0)
    inducers = _top(mean[KINDS.index(PREFIX)], spec.top)
    before = _top(mean[KINDS.index(PREVIOUS)], spec.top)
    places = np.arange(nothing.size).reshape(nothing.shape)
    rest = np.setdiff1d(places, inducers)
    rng = host_generator(draws_key)
    drawn = [rng.choice(rest, spec.top, replace=False) for _ in range(spec.draws)]
    sets = {"induction": inducers, "previous": before}
    sets |= {f"random {i}": chosen for i, chosen in enumerate(drawn)}
    marks = [nothing, *(np.isin(places, chosen) for chosen in sets.values())]
    without = [on_texts(texts.plain, mark) for mark in lab.track(marks[1:], "sets removed")]
    removed = [plain, *without]
    rows, columns = np.unravel_index(inducers, nothing.shape)
    of_top = [r.scores[:, KINDS.index(PREFIX), rows, columns] for r in removed]
    heads, cells = ("layer", "head"), np.stack(list(sets.values()))
    later = np.unique(rows)
    # A text repeats after `length` tokens, and the token after a match lies one less back.
    compose = jax.jit(lambda of: composition(fold_norms(of), offset=n - 1).score)
    composed = np.asarray(compose(model))[:, :, :, later]
    losses = np.stack([r.losses for r in removed])
    # The first token of a text is never predicted; that of its second copy cannot be known.
    parts = losses[..., : n - 1], losses[..., n - 1 : n], losses[..., n:]
    curves = losses.mean(axis=1)
    arrays = {
        "loss_by_place": (("curve", "place"), np.stack([*curves[:3], curves[3:].mean(axis=0)])),
        "loss": (("set", "text", "part"), np.stack([part.mean(axis=-1) for part in parts], -1)),
        "prefix_of_top": (("set", "text", "rank"), np.stack(of_top)),
        "scores": (("twin", "text", "kind", *heads), np.stack([plain.scores, spoilt.scores])),
        "direct": (("text", *heads), plain.direct),
        "removed_layer": (("without", "rank"), cells // n_heads),
        "removed_head": (("without", "rank"), cells % n_heads),
        "composition": (("reading", *heads, "reader_layer", "reader_head"), composed),
    }
    coords = {
        "set": ["intact", *sets],
        "without": list(sets),
        "curve": ["intact", "induction", "previous", "random"],
        "part": ["first", "turn", "second"],
        "twin": ["plain", "spoilt"],
        "kind": list(KINDS),
        "reading": ["Q", "K", "V"],
        "reader_layer": later,
    }
    notes |= {"no_prose": missing(spec.weights, text=True), "length": n}
    if not notes["no_prose"]:
        stretches = text_excerpts(spec.weights, rng, spec.chapters, spec.stretch)
        ablated = jnp.asarray(np.stack(marks), float)
        each = [prose_losses(model, jnp.asarray(text), ablated) for text in stretches]
        arrays["prose_loss"] = (("set", "chapter", "predicted"), np.stack(each, axis=1))
    return xr.Dataset(arrays, coords, notes)


def _top(scores: np.ndarray, n: int) -> np.ndarray:
    """Flat indices of the n largest, the largest first."""
    return np.argsort(-scores.ravel(), kind="stable")[:n]
