"""Measurements of the models of one language, by the same functions for each."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.detectors import induction_scores
from circuitax.circuits.weights.heads import token_ov
from circuitax.circuits.weights.spectra import copying_score
from circuitax.circuits.weights.token_tables import (
    copying_accuracy,
    head_tables,
    rejoining,
    row_percentile,
)
from circuitax.data.tables import table_losses
from circuitax.kernel.model import Model
from circuitax.lab.lab import Lab
from circuitax.training.language import text_losses
from experiments.induction.languages.words import split_words, whole_words
from experiments.induction.shared.two_layers import AXES, circuit_data
from experiments.induction.shared.weight_readings import weight_readings
from experiments.induction.shared.window_readings import window_readings

DEPTHS = ("layers-0", "layers-1", "layers-2")
# Split words on which a head is chosen, and on which it is judged.
FEWEST_WORDS = 5
# The framework paper's rows, S0's Table 1: source, destinations, outs.
ROWS = {
    "perfect": (("are", "looks", "is", "provides"), ("perfect", "super", "absolute", "pure")),
    "large": (("contains", "using", "specify"), ("large", "small", "very", "huge")),
    "two": (("One", "one"), ("two", "three", "four", "five", "one")),
    "great": (("The", "the", "contains"), ("great", "Great", "poor", "every")),
}


class Trio(NamedTuple):
    """The three depths of one language, and the required parts of their text.

    Attributes:
        alive: ``[model, member]``.
        counts: Pairs of neighbours in the training part and in the held-out one.
        names: The text of every token.
    """

    before: dict[str, Model]
    after: dict[str, Model]
    alive: np.ndarray
    windows: Array
    counts: dict[str, np.ndarray]
    names: tuple[str, ...]


class Readers(NamedTuple):
    """Measurements of all members, compiled once for both languages where their sizes agree.

    Attributes:
        table_tokens: Most frequent tokens, of which a table is made, and most words of another.
        fewest_tokens: Tokens that a table needs.
        most_words: Most frequent words of two tokens that heads might re-join.
    """

    weights: Any
    windows: Any
    repeats: Any
    loss: Any
    heads: Any
    row: Any
    tables: Any
    table_tokens: int
    fewest_tokens: int
    most_words: int

    @classmethod
    def of(
        cls, offsets: int, sources: int, entries: int, table_tokens: int, most_words: int
    ) -> "Readers":
        """All of them.

        Args:
            offsets: Distances at which attention is tabled.
            sources: Rows of the table of skip-trigrams of a head.
            entries: Destinations and outs in a row.
            table_tokens: As in the attribute.
            most_words: As in the attribute.
        """

        def repeats(model: Model, exam: Array) -> dict[str, Array]:
            return induction_scores(model, exam)._asdict()

        def loss(model: Model, windows: Array) -> dict[str, Array]:
            return {"loss": text_losses(model, windows).mean()}

        def over_members(fn: Any, n_shared: int) -> Any:
            return jax.jit(jax.vmap(fn, (0, *[None] * n_shared)))

        return cls(
            over_members(weight_readings, 0),
            over_members(partial(window_readings, offsets=offsets), 1),
            over_members(repeats, 1),
            over_members(loss, 1),
            over_members(_heads, 2),
            over_members(row_percentile, 3),
            jax.jit(partial(head_tables, n=sources, k=entries)),
            table_tokens,
            max(sources, entries),
            most_words,
        )


def readings(
    language: str, trio: Trio, exam: Array, read: Readers, lab: Lab
) -> "tuple[xr.Dataset, dict[str, Any]]":
    """All that is read of one language, and two tables of skip-trigrams.

    One table is of the most frequent tokens, the other of tokens that are words, if enough are.

    Args:
        language: Its name, in the names of what the lab keeps.
        trio: Its models and its text.
        exam: Texts of repeated random tokens, on which induction heads would show.
        read: The compiled readers.
        lab: Keeps each reading.
    """
    windows, two = trio.windows, trio.after["layers-2"]
    untrained, trained = (
        lab.stage(f"{language}-weights-{when}", read.weights, models["layers-2"])
        for when, models in (("before", trio.before), ("after", trio.after))
    )
    seen = lab.stage(f"{language}-windows", read.windows, two, windows)
    scores = lab.stage(f"{language}-repeats", read.repeats, two, exam)
    runs = {name: seen[name] for name in seen if name in AXES} | {"prefix": scores["prefix"]}
    data = circuit_data(untrained, trained, runs).drop_vars("selected")
    losses = [
        lab.stage(f"{language}-loss-{name}", read.loss, models, windows)
        for name, models in trio.after.items()
    ]
    one = {"": trio.after["layers-1"], "_at_init": trio.before["layers-1"]}
    pieces = split_words(trio.names, trio.counts["train"], read.most_words)
    for end, models in one.items():
        scores = lab.stage(f"{language}-one{end}", read.heads, models, *_halves(pieces))
        data = data.assign({f"{name}{end}": (("member", "cell"), v) for name, v in scores.items()})
        data[f"table_row{end}"] = (("member", "row"), _rows(trio.names, models, read.row))
    data = data.assign(
        loss_of_depth=(("model", "member"), np.stack([loss["loss"] for loss in losses])),
        alive=(("model", "member"), trio.alive.astype(float)),
        uniform=np.log(two.d_vocab),
        chance_5=5 / two.d_vocab,
        n_ctx=two.n_ctx or 0,
    ).assign(table_losses(trio.counts["train"], np.asarray(windows)))
    frequent = np.argsort(-trio.counts["train"].sum(axis=0))[: read.table_tokens]
    chosen = {
        "frequent": frequent,
        "words": whole_words(trio.names, trio.counts["train"], read.table_tokens),
    }
    first, tables = trio.after["layers-1"][0], {}
    for name, ids in chosen.items():
        if len(ids) >= read.fewest_tokens:
            found = lab.stage(f"{language}-{name}", read.tables, first, jnp.asarray(ids))
            tables[name] = _table(found, trio.names)
    return data.assign_coords(model=list(DEPTHS), row=list(ROWS)), tables


def _table(found: dict[str, Array], names: Sequence[str]) -> dict[str, Any]:
    """The words of a table of skip-trigrams."""
    word = np.vectorize(lambda i: names[i], otypes=[object])
    return {
        name: word(np.asarray(found[name])).tolist() for name in ("sources", "destinations", "outs")
    }


def _halves(pieces: tuple[np.ndarray, np.ndarray]) -> tuple[Any, Any]:
    """Words to choose a head by and words to judge it by; None where too few are split."""
    if len(pieces[0]) < 2 * FEWEST_WORDS:
        return None, None
    return tuple(tuple(jnp.asarray(ids[i::2]) for ids in pieces) for i in range(2))  # type: ignore[return-value]


def _heads(model: Model, chosen_by: Any, judged_by: Any) -> dict[str, Array]:
    """Copying of every head of one layer, and how well it re-joins split words."""
    ov = jax.tree.map(lambda f: f[0] if f.ndim == 4 else f, token_ov(model))
    found = {"ov_copying": copying_score(ov), "ov_top_5": copying_accuracy(ov, 5)}
    for name, words in (("rejoin_choice", chosen_by), ("rejoin", judged_by)):
        none = jnp.full(model.n_heads, jnp.nan)
        found[name] = none if words is None else rejoining(model, *words)
    return found


def _rows(names: Sequence[str], models: Model, read: Any) -> np.ndarray:
    """Rank of each row of the paper in its best head; NaN where a word is no token."""
    ids = {name: i for i, name in reversed(list(enumerate(names)))}

    def known(words: Sequence[str]) -> list[int]:
        return [ids[f" {word}"] for word in words if f" {word}" in ids]

    (n_members,) = models.member_axes
    found = []
    for source, (destinations, outs) in ROWS.items():
        at, to, out = known([source]), known(destinations), known(outs)
        if at and to and out:
            held = read(models, jnp.array(at[0]), jnp.array(to), jnp.array(out))
            found.append(np.asarray(held).max(axis=-1))
        else:
            found.append(np.full(n_members, np.nan))
    return np.stack(found, axis=1)
