"""A reward on composition for models that learn real text, in the setting of `text_induction`."""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.config.ranges import Positive
from circuitax.data.synthetic import RepeatedSource
from circuitax.data.text import TextSpec, WindowSource, device_tokens, open_text, spaced_windows
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.measured_training import measured_training
from circuitax.kit.members import each_member
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken
from circuitax.training.optim import OptimSpec
from experiments.induction.composition_dose.prices import KINDS, excess, priced
from experiments.induction.shared.window_readings import induction_on_text


@dataclass(frozen=True)
class TextSetting:
    """Sizes and recipe of `text_induction`, whose models form no induction head on plain text.

    Attributes:
        task: Which text.
        model: Sizes, of two layers.
        optim: Optimizer, over the whole of training.
        batch: Windows a step.
        seeds: Members at each price; their initial weights and texts are the same at all prices.
        rewards: Prices of K-composition, of which the last stands on K-composition turned too.
        min_period: Shortest repeat of the texts for the head scores.
        max_period: Longest one.
        measure_every: Steps between two measurements.
        windows: Windows of held-out text to measure on.
        texts: Random repeated texts for the head scores.
    """

    task: TextSpec = field(default_factory=TextSpec)
    model: TransformerSpec = field(default_factory=partial(TransformerSpec, d_vocab=512))
    optim: OptimSpec = field(default_factory=OptimSpec)
    batch: Positive = 32
    seeds: Positive = 4
    rewards: Annotated[tuple[float, ...], "increasing"] = (-0.01, -0.002)
    min_period: Annotated[int, "[1, max_period]"] = 8
    max_period: Annotated[int, "[1, model.n_ctx)", "[1, model.d_vocab]"] = 32
    measure_every: Annotated[int, "divides optim.steps"] = 100
    windows: Positive = 256
    texts: Positive = 32

    def __post_init__(self) -> None:
        if self.model.d_vocab != self.task.d_vocab or self.model.n_ctx is None:
            raise ValueError(
                f"model.d_vocab={self.model.d_vocab} must be task.d_vocab={self.task.d_vocab}, "
                f"and model.n_ctx={self.model.n_ctx} a number"
            )


def text_data(spec: TextSetting, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Curves of no reward, of all rewards, and of one on K-composition turned: one ensemble."""
    text, length = open_text(spec.task), spec.model.n_ctx or 0
    source = WindowSource(spec.batch, length, device_tokens(text.tokens.train))
    repeated = RepeatedSource(
        spec.texts, length, spec.model.d_vocab, spec.min_period, spec.max_period, distinct=True
    )
    windows = jnp.asarray(spaced_windows(text.tokens.validation, spec.windows, length))
    exam = repeated(derive(key, "repeats"))

    cells = [("K", 0.0), *(("K", dose) for dose in spec.rewards), ("turned", spec.rewards[-1])]
    prices = np.array([[dose * (kind == each) for each in KINDS] for kind, dose in cells])
    one = new_members(key, spec.optim.learning_rate, jnp.zeros(spec.seeds))
    members = jax.tree.map(lambda leaf: jnp.concatenate([leaf] * len(cells)), one)
    members = members._replace(hyper=jnp.repeat(jnp.asarray(prices), spec.seeds, axis=0))
    problem = NextToken(Transformer(spec.model), source, penalty=priced)
    plan = Plan(problem, spec.optim, spec.measure_every, mesh=lab.mesh)

    def measure(model: Model, windows: Array, exam: Array) -> dict[str, Array]:
        return induction_on_text(model, windows, exam) | {"excess": excess(model)}

    trained = measured_training(
        lab,
        "text",
        init(plan, members),
        advance(plan, members),
        steps=spec.optim.steps,
        every=spec.measure_every,
        measure=each_member(measure, windows, exam),
        as_models=partial(model_from_params, spec=spec.model),
    )
    best = {name: trained.curves[name].max(axis=(2, 3)) for name in ("prefix", "previous")}
    losses = {name: trained.curves[name] for name in ("loss", "loss_repeated", "loss_new")}
    found = best | losses | {"K": trained.curves["excess"][..., KINDS.index("K")]}
    over, split = ("text_step", "cell", "text_member"), (len(cells), spec.seeds)
    tokens = trained.steps * spec.batch * (length - 1)
    data = {f"text_{name}": (over, v.reshape(len(v), *split)) for name, v in found.items()}
    alive = {"text_alive": (over[1:], trained.alive.reshape(split))}
    return xr.Dataset(
        data | alive | {"text_chance": float(trained.curves["chance"][0, 0])},
        {"cell": [f"{kind} {dose:g}" for kind, dose in cells], "tokens": ("text_step", tokens)},
        {"text": text.about(), "divergence": trained.divergence},
    )
