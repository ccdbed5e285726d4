"""One layer on real text: skip-trigrams read from weights, copying, positions, bugs, additivity.

The framework paper reads a one-layer model as bigrams and skip-trigrams: tables of its QK and OV
circuits, heads that copy, pairs that one head ties together against the text (bugs). S0, "Some
Structures in Transformer Architectures", calls the model a sum of them (Theorem 25); a softmax does
more, and how much is measured on the text and on the language "a unless b".
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.circuits.weights.heads import token_ov
from circuitax.circuits.weights.spectra import eigenvalue_score
from circuitax.circuits.weights.token_tables import head_tables
from circuitax.config.ranges import Positive
from circuitax.data.corpus import TextError
from circuitax.data.text import Text, TextSpec, open_text, spaced_windows
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.spectrum import cyclic, eigenvalues
from circuitax.kit.kept_models import KeptModels
from circuitax.kit.members import each_member
from circuitax.lab.lab import Lab
from circuitax.training.optim import OptimSpec
from experiments.one_layer.one_layer_circuits.additivity import (
    AdditiveTask,
    UnlessTask,
    additivity_gap,
    text_gap,
)
from experiments.one_layer.one_layer_circuits.bugs import (
    MOST_TOKENS,
    Search,
    bug_price,
    most_frequent,
    text_bugs,
)
from experiments.one_layer.shared.held_out import MORE, held_out_windows

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Spec:
    """Measurements on the one-layer text models, and the language that no sum can express.

    Attributes:
        task: The text that ``text_models`` was trained on; its held-out part prices the bugs.
        windows: Held-out windows for the price, and windows of the training text where bugs are
            looked at.
        pairs: Most frequent (source, destination) pairs that get a free vector.
        sources: Rows of the skip-trigram table of a head.
        entries: Destinations and outs in a row.
        table_tokens: Most frequent tokens, of which the table is made.
        bugs: Bugs listed for each model.
        bug_tokens: Most frequent tokens, among which bugs are sought.
        bug_places: Only pairs that stand at so many places of these windows are searched.
        bug_sources: Sources of largest weight, for each head, whose bugs are sought.
        additive: How one layer with and without its denominators is trained on the text.
        unless: The language "a unless b", and the model trained on it.
        optim: Optimizer of that model.
    """

    task: TextSpec = field(default_factory=TextSpec)
    windows: Annotated[int, "[2, inf)"] = 512  # even ones fit the vectors, odd ones price them
    pairs: Positive = 64
    sources: Annotated[int, "[1, table_tokens]"] = 4
    entries: Annotated[int, "[1, table_tokens]"] = 4
    table_tokens: Annotated[int, "[1, task.d_vocab]"] = 320
    bugs: Positive = 12
    bug_tokens: Annotated[int, "[1, task.d_vocab]", f"[1, {MOST_TOKENS}]"] = 512
    bug_places: Positive = 10
    bug_sources: Annotated[int, "[1, bug_tokens]"] = 32
    additive: AdditiveTask = field(default_factory=AdditiveTask)
    unless: UnlessTask = field(default_factory=UnlessTask)
    optim: OptimSpec = field(default_factory=OptimSpec)

    def __post_init__(self) -> None:
        if self.optim.steps % self.unless.chunk:
            raise ValueError(f"unless.chunk={self.unless.chunk} must divide {self.optim.steps=}")

    def upstream(self, name: str) -> dict[str, str | int]:
        """``text_models`` of the same text; of one's own text without the models not read here."""
        asked = self.task.upstream()
        return asked and asked | {"model.n_layers": 1, "full_seeds": 0, "halvings": 0}


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Tables and scores of every head before and after training; bugs; the additivity gap."""
    upstream, kept = lab.input("text_models"), KeptModels.of_input(lab, "text_models")
    length = kept.spec("layers-1").n_ctx or 0
    first, last = (kept.members("layers-1", step) for step in (kept.steps[0], kept.steps[-1]))
    read = each_member(of_weights)
    before, after = lab.stage("before", read, first), lab.stage("after", read, last)
    text = open_text(spec.task)
    if text.about() != upstream.notes["text"]:
        raise TextError(
            f"task names the corpus {text.corpus.title!r} at d_vocab={spec.task.d_vocab}, must "
            f"name the text of text_models, {upstream.notes['text']['corpus']!r} at "
            f"d_vocab={upstream.notes['text']['d_vocab']}"
        )
    train = np.asarray(text.tokens.train)
    tables = jax.jit(partial(head_tables, n=spec.sources, k=spec.entries))
    frequent = jnp.asarray(most_frequent(train, spec.task.d_vocab, spec.table_tokens))
    table = lab.stage("tables", tables, last[0], frequent)
    held_out = jnp.asarray(spaced_windows(text.tokens.validation, spec.windows, length))
    price = each_member(partial(bug_price, n_pairs=spec.pairs), held_out)
    bugs = lab.stage("price", price, last)
    search = Search(
        spec.bug_tokens, spec.bug_sources, spec.bugs, spec.windows, length, spec.bug_places
    )
    listed = lab.stage("bugs", text_bugs, last, train, search)
    exam = jnp.asarray(lab.load_arrays("held-out", source="text_models")["windows"])
    sums = _families(spec, kept.spec("layers-1"), text, exam, derive(key, "text"), lab)
    gap = additivity_gap(spec.unless, spec.optim, derive(key, "unless"), lab)
    data = _dataset(before, after, table, bugs | listed, gap).merge(sums)
    data = data.assign_coords(token=upstream.data.token)
    data["alive"] = upstream.data.alive.sel(model="layers-1", drop=True)
    data["bigram_loss"] = upstream.data.bigram_loss
    return data


def of_weights(model: Model) -> dict[str, jax.Array]:
    """OV eigenvalues of every head, real and imaginary parts side by side, and their score."""
    ov = jax.tree.map(lambda f: f[0] if f.ndim == 4 else f, token_ov(model))
    values = eigenvalues(cyclic(ov))
    parts = jnp.concatenate([values.real, values.imag], axis=-1)
    return {"copying": eigenvalue_score(values), "eigenvalues": parts}


def _families(
    spec: Spec, sizes: TransformerSpec, text: Text, exam: jax.Array, key: jax.Array, lab: Lab
) -> xr.Dataset:
    """Held-out losses of one layer with and without denominators, on the text's last windows."""
    task = spec.additive
    curve, _ = held_out_windows(text, len(exam) // MORE, sizes)
    found = text_gap(task, sizes, text.tokens.train, curve, exam, key, lab)
    looks = np.arange(0, task.optim.steps + 1, task.chunk)
    return xr.Dataset(
        {name: (("look", "pair")[-values.ndim :], values) for name, values in found.items()},
        coords={"look_tokens": ("look", looks * task.batch * (exam.shape[1] - 1))},
    )


def _dataset(before: Arrays, after: Arrays, table: Arrays, bugs: Arrays, gap: Arrays) -> xr.Dataset:
    heads = ("member", "head")
    axes: dict[str, tuple[str, ...]] = {
        "copying": heads,
        "eigenvalues": (*heads, "eigenvalue"),
    }
    rows = {
        "sources": ("head", "row"),
        "weight": ("head", "row"),
        "destinations": ("head", "row", "entry"),
        "scores": ("head", "row", "entry"),
        "outs": ("head", "row", "entry"),
        "raises": ("head", "row", "entry"),
    }
    arrays: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for name, dims in axes.items():
        arrays[name] = (dims, after[name])
        arrays[f"{name}_at_init"] = (dims, before[name])
    arrays |= {name: (dims, table[name]) for name, dims in rows.items()}
    arrays |= {name: (("member", "bug")[: v.ndim], v) for name, v in bugs.items()}
    arrays |= {name: (("run", "cell")[: v.ndim], v) for name, v in gap.items()}
    return xr.Dataset(arrays)
