"""One layer on real text: skip-trigrams read from weights, copying, additivity.

The framework paper reads a one-layer model as bigrams and skip-trigrams: tables of its QK and OV
circuits, heads that copy. S0, "Some Structures in Transformer Architectures", calls the model a sum
of them (Theorem 25); a softmax does more: how much, on the text and on the language "a unless b".
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
from circuitax.data.corpus import TextError
from circuitax.data.text import TextSpec, open_text
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
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

HEADS = ("member", "head", "eigenvalue")
ROWS = 4  # of the skip-trigram table of a head; as many destinations and outs stand in each


@dataclass(frozen=True)
class Spec:
    """Measurements on the one-layer text models, and the language that no sum can express.

    Attributes:
        task: The text that ``text_models`` was trained on.
        table_tokens: Most frequent tokens, of which the table is made.
        additive: How one layer with and without its denominators is trained on the text.
        unless: The language "a unless b", and the model trained on it.
        optim: Optimizer of that model.
    """

    task: TextSpec = field(default_factory=TextSpec)
    table_tokens: Annotated[int, "[4, task.d_vocab]"] = 320
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
    """Tables and scores of every head before and after training; the additivity gap."""
    upstream, kept = lab.input("text_models"), KeptModels.of_input(lab, "text_models")
    first, last = (kept.members("layers-1", step) for step in (kept.steps[0], kept.steps[-1]))
    read = each_member(of_weights)
    before, after = lab.stage("before", read, first), lab.stage("after", read, last)
    text = open_text(spec.task)
    if text.about() != upstream.notes["text"]:
        raise TextError(
            f"task names {text.corpus.title!r} at d_vocab={spec.task.d_vocab}, must name the text "
            f"of text_models: {upstream.notes['text']}"
        )
    counts = np.bincount(text.tokens.train, minlength=spec.task.d_vocab)
    frequent = jnp.asarray(np.argsort(-counts, kind="stable")[: spec.table_tokens])
    tables = jax.jit(partial(head_tables, n=ROWS, k=ROWS))
    table = lab.stage("tables", tables, last[0], frequent)
    exam = jnp.asarray(lab.load_arrays("held-out", source="text_models")["windows"])
    sizes = kept.spec("layers-1")
    sums = text_gap(spec.additive, sizes, text.tokens.train, exam, derive(key, "text"), lab)
    gap = additivity_gap(spec.unless, spec.optim, derive(key, "unless"), lab)
    arrays = {name: (HEADS[: v.ndim], v) for name, v in after.items()}
    arrays |= {f"{name}_at_init": (HEADS[: v.ndim], v) for name, v in before.items()}
    for name in ("sources", "destinations", "outs"):
        arrays[name] = (("head", "row", "entry")[: table[name].ndim], table[name])
    arrays |= {name: (("pair",), v) for name, v in sums.items()}
    arrays |= {name: (("run", "cell")[: v.ndim], v) for name, v in gap.items()}
    data = xr.Dataset(arrays, {"token": upstream.data.token})
    data["alive"] = upstream.data.alive.sel(model="layers-1", drop=True)
    data["bigram_loss"] = upstream.data.bigram_loss
    return data


def of_weights(model: Model) -> dict[str, jax.Array]:
    """OV eigenvalues of every head, real and imaginary parts side by side, and their score."""
    ov = jax.tree.map(lambda f: f[0] if f.ndim == 4 else f, token_ov(model))
    values = eigenvalues(cyclic(ov))
    parts = jnp.concatenate([values.real, values.imag], axis=-1)
    return {"copying": eigenvalue_score(values), "eigenvalues": parts}
