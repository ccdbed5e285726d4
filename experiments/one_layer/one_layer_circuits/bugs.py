"""Skip-trigram bugs of one-layer models on a text, and what they cost.

A head that attends from two destinations to one source, and raises two outs there, does so in all
four combinations. A bug is a combination that it raises although the text never has it.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Integer

from circuitax.circuits.skip_trigrams import find_bugs, price_bugs
from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.data.tables import bigram_counts
from circuitax.data.text import spaced_windows
from circuitax.kernel.chain import columns, materialise, rows
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import ablate_heads
from circuitax.kernel.model import Model
from circuitax.kit.members import one_by_one


class Search(NamedTuple):
    """Search space of bugs: the most frequent tokens, and the head's heaviest sources."""

    n_tokens: int
    n_sources: int
    k: int
    n_windows: int
    length: int
    often: int


CANDIDATES = 8  # for each bug wanted, so that enough are left with a source and out of their own
MOST_TOKENS = 1024  # whose triples are tabled: then the table has about a gigabyte


def text_bugs(models: Model, tokens: np.ndarray, search: Search) -> dict[str, np.ndarray]:
    """The k strongest bugs of each member over all heads, and the model's logits there.

    A triple counts as seen if its source stands anywhere before its destination in some window of
    the whole text. What the model says is measured on windows spread over it, and only pairs that
    stand ``often`` there are searched. Of bugs with one head, source and out the strongest stays.
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


def bug_price(model: Model, windows: Array, n_pairs: int) -> dict[str, Array]:
    """Held-out nats for each event that a free vector for each frequent pair would save.

    An event is a position whose most attended earlier token, over all heads, and present token are
    one of the most frequent such pairs. Even windows fit the vectors, odd ones price them.
    """

    def one(text: Array) -> tuple[Array, Array]:
        logits, trace = forward(model, text)
        strictly = jnp.tril(trace.patterns[0].max(axis=0), k=-1)
        return logits, text[strictly.argmax(axis=-1)]

    logits, sources = jax.lax.map(one, windows)
    d_vocab = logits.shape[-1]
    pair = (sources * d_vocab + windows)[:, 1:-1].ravel()
    counts = jnp.zeros(d_vocab**2).at[pair].add(1)
    _, frequent = jax.lax.top_k(counts, n_pairs)
    index = jnp.full(d_vocab**2, n_pairs).at[frequent].set(jnp.arange(n_pairs))[pair]
    odd = jnp.broadcast_to(jnp.arange(len(windows))[:, None] % 2, windows[:, 1:-1].shape)
    # A fixed number of events, so that the shapes are static: the frequent ones come first.
    n_events = pair.shape[0] // 8
    chosen = jnp.argsort(index, stable=True)[:n_events]
    active = (index[chosen] < n_pairs).astype(logits.dtype)
    held_out = odd.ravel()[chosen].astype(logits.dtype)
    events = logits[:, 1:-1].reshape(-1, d_vocab)[chosen]
    targets = windows[:, 2:].ravel()[chosen]
    place = jnp.minimum(index[chosen], n_pairs)
    # Events of no frequent pair share the last vector and are not priced.
    price = price_bugs(events, targets, place, held_out, n_pairs + 1, n_steps=30)
    weight = jax.ops.segment_sum(held_out * active, place, n_pairs + 1)[:n_pairs]
    saved = (price.saved_by_pair[:n_pairs] * weight).sum() / weight.sum()
    return {"bug_price": saved, "bug_events": weight.sum()}


def most_frequent(
    tokens: Integer[np.ndarray, " n_tokens"], d_vocab: int, n: int
) -> Int[np.ndarray, " n"]:
    """The n most frequent tokens, most frequent first, ties by number."""
    counts = np.bincount(tokens, minlength=d_vocab)
    return np.argsort(-counts, kind="stable")[:n]


def seen_triples(
    tokens: Integer[np.ndarray, " n_tokens"], chosen: Int[np.ndarray, " n"], reach: int
) -> Bool[np.ndarray, "source dest out"]:
    """Whether each triple of chosen tokens occurs: source … destination, out.

    ``out`` directly follows the destination, and the source is 1 to ``reach`` tokens before the
    destination. Boundaries of documents are ignored, as in windows of the text.
    """
    n = len(chosen)
    text = np.asarray(tokens)
    place = np.full(max(int(text.max(initial=0)), int(chosen.max(initial=0))) + 1, -1, np.int32)
    place[chosen] = np.arange(n)
    at = place[text]
    pair = np.where((at[:-1] >= 0) & (at[1:] >= 0), at[:-1] * n + at[1:], -1)
    seen = np.zeros(n**3, bool)
    for back in range(1, min(reach, len(pair) - 1) + 1):
        source, here = at[: len(pair) - back], pair[back:]
        fits = (source >= 0) & (here >= 0)
        seen[source[fits] * np.int32(n * n) + here[fits]] = True
    return seen.reshape(n, n, n)
