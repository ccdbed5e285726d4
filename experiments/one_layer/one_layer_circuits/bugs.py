"""Skip-trigram bugs of one-layer models on a text.

A head that attends from two destinations to one source, and raises two outs there, does so in all
four combinations. A bug is a combination that it raises although the text never has it.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from circuitax.circuits.skip_trigrams import find_bugs
from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.data.tables import bigram_counts
from circuitax.data.windows import spaced_windows
from circuitax.kernel.chain import columns, materialise, rows
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import ablate_heads
from circuitax.kernel.model import Model
from circuitax.kit.members import one_by_one
from experiments.one_layer.one_layer_circuits.triples import most_frequent, seen_triples


class Search(NamedTuple):
    """Search space of bugs: the most frequent tokens, and the head's heaviest sources."""

    n_tokens: int
    n_sources: int
    k: int
    n_windows: int
    length: int
    often: int


CANDIDATES = 8  # for each bug wanted, so that enough are left with a source and out of their own


def text_bugs(models: Model, tokens: np.ndarray, search: Search) -> dict[str, np.ndarray]:
    """The k strongest bugs of each member over all heads, and the model's logits there.

    A triple counts as seen if its source stands anywhere before its destination in some window of
    the whole text. What the model says is measured on windows spread over it, and only pairs that
    stand ``often`` there are searched. Of bugs with one head, source and out the strongest stays.

    Args:
        models: Members of a one-layer model.
        tokens: The text.
        search: Its limits.
    """
    d_vocab = models.d_vocab
    chosen = most_frequent(tokens, d_vocab, search.n_tokens)
    seen = seen_triples(tokens, chosen, search.length - 2)
    windows = jnp.asarray(spaced_windows(tokens, search.n_windows, search.length))
    pairs = np.asarray(jax.jit(_pairs, static_argnums=1)(windows, d_vocab))[np.ix_(chosen, chosen)]
    seen &= (pairs >= search.often)[:, :, None]
    find = jax.jit(partial(_strongest, n_sources=search.n_sources, k=CANDIDATES * search.k))
    ask = jax.jit(_said)

    def of_member(model: Model) -> dict[str, Array]:
        candidates = find(model, jnp.asarray(seen), jnp.asarray(chosen))
        first = jnp.asarray(_first_of_kind(candidates, search.k))
        bugs = {name: values[first] for name, values in candidates.items()}
        return bugs | ask(model, bugs, windows)

    all_of = one_by_one(of_member, models)
    counts = bigram_counts(tokens, d_vocab)
    # How often the out follows the destination, whatever came before.
    all_of["bigram"] = counts[all_of["destination"], all_of["out"]] / np.maximum(
        counts.sum(axis=1)[all_of["destination"]], 1
    )
    return {f"bug_{name}": values for name, values in all_of.items()}


def _pairs(windows: Array, d_vocab: int) -> Array:
    """Number of places in the windows at which a destination stands with each source before it."""

    def one(text: Array) -> Array:
        here = jax.nn.one_hot(text, d_vocab)
        before = (jnp.cumsum(here, axis=0) - here > 0).astype(here.dtype)
        return before.T @ here

    zero = jnp.zeros((d_vocab, d_vocab))
    return jax.lax.scan(lambda total, text: (total + one(text), None), zero, windows)[0]


def _first_of_kind(bugs: dict[str, Array], k: int) -> np.ndarray:
    """Places of the first k with a head, source and out of their own; the list is filled up."""
    kinds = np.stack([np.asarray(bugs[name]) for name in ("head", "source", "out")])
    first = np.unique(kinds, axis=1, return_index=True)[1]
    rest = np.setdiff1d(np.arange(kinds.shape[1]), first)
    return np.concatenate([np.sort(first), rest])[:k]


def _strongest(
    model: Model, seen: Array, chosen: Array, n_sources: int, k: int
) -> dict[str, Array]:
    """The strongest bugs of a one-layer model among the chosen tokens, over all heads."""
    qk, ov = token_qk(model), token_ov(model)
    scores = materialise(columns(rows(qk.T, chosen), chosen))[0]
    raises = materialise(columns(rows(ov, chosen), chosen))[0]

    def of_head(tables: tuple[Array, Array]) -> tuple[Array, ...]:
        score, rise = tables
        weight = jax.nn.relu(score).max(axis=1) * jax.nn.relu(rise).max(axis=1)
        best = jax.lax.top_k(weight, n_sources)[1]
        room = seen[best].size
        bugs = find_bugs(score[best], rise[best], seen[best].astype(score.dtype), min(k, room))
        return best[bugs.source], bugs.destination, bugs.out, bugs.strength

    source, destination, out, strength = jax.lax.map(of_head, (scores, raises))
    per_head = strength.shape[1]
    order = jax.lax.top_k(strength.ravel(), min(k, strength.size))[1]
    places = {"source": source, "destination": destination, "out": out}
    return {name: chosen[at.ravel()[order]] for name, at in places.items()} | {
        "head": order // per_head,
        "strength": strength.ravel()[order],
    }


def _said(model: Model, bugs: dict[str, Array], windows: Array) -> dict[str, Array]:
    """Mean probability of the out where the pair stands, with the bug's head and without it."""
    n_layers, n_heads = model.n_layers, model.n_heads
    index = jnp.arange(bugs["out"].shape[0])

    def one(text: Array) -> tuple[Array, Array, Array]:
        def probs(logits: Array) -> Array:
            return jax.nn.softmax(logits, axis=-1)[:, bugs["out"]]

        logits, trace = forward(model, text)

        def without(head: Array) -> Array:
            gone = jax.nn.one_hot(head, n_heads)[None]
            kept = ablate_heads(jnp.broadcast_to(gone, (n_layers, n_heads)))
            return probs(forward(model, text, kept._replace(all_patterns=trace.patterns))[0])

        absent = jax.vmap(without)(jnp.arange(n_heads))[bugs["head"], :, index].T
        is_source = text[:, None] == bugs["source"][None, :]
        before = jnp.cumsum(is_source, axis=0) - is_source > 0
        here = before & (text[:, None] == bugs["destination"][None, :])
        said, missed = (jnp.where(here, p, 0).sum(axis=0) for p in (probs(logits), absent))
        return said, missed, here.sum(axis=0)

    said, absent, events = (x.sum(axis=0) for x in jax.lax.map(one, windows))
    # No mean where the list ends before its places do, strength 0, or a pair is not there.
    there = (events > 0) & (bugs["strength"] > 0)
    means = [jnp.where(there, p / jnp.maximum(events, 1), jnp.nan) for p in (said, absent)]
    return {"said": means[0], "without": means[1], "events": events}
