"""A reward on composition for models that learn real text, in the setting of `text_induction`."""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
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
from circuitax.training.language import NextToken, Penalty
from circuitax.training.optim import OptimSpec
from experiments.induction.shared.window_readings import induction_on_text


@dataclass(frozen=True)
class TextSetting:
    """Sizes and recipe of `text_induction`, whose models of two layers form no induction head.

    Attributes:
        task: Which text.
        model: Sizes, of two layers.
        optim: Optimizer, over the whole of training.
        batch: Windows a step.
        seeds: Members at each price; their initial weights and texts are the same at all prices.
        rewards: Negative prices of K-composition; the first is that of the other kinds too.
        min_period: Shortest repeat of the texts for the head scores.
        max_period: Longest one.
        measure_every: Steps between two measurements.
        windows: Windows of held-out text to measure on.
        texts: Random repeated texts for the head scores.
    """

    task: TextSpec = field(default_factory=TextSpec)
    model: TransformerSpec = field(default_factory=TransformerSpec)
    optim: OptimSpec = field(default_factory=OptimSpec)
    batch: Positive = 32
    seeds: Positive = 4
    rewards: Annotated[tuple[float, ...], "increasing"] = (-0.01, -0.001)
    min_period: Annotated[int, "[1, max_period]"] = 8
    max_period: Annotated[int, "[1, model.n_ctx)", "[1, model.d_vocab]"] = 32
    measure_every: Annotated[int, "divides optim.steps"] = 50
    windows: Positive = 256
    texts: Positive = 32


def cells_on_text(rewards: tuple[float, ...]) -> list[tuple[str, float]]:
    """Kind and price of every cell: no price, each on K-composition, the first on two others."""
    paid = [("K", dose) for dose in rewards] + [(kind, rewards[0]) for kind in ("V", "turned")]
    return [("K", 0.0), *paid]


def trained_on_text(
    spec: TextSetting,
    key: jax.Array,
    lab: Lab,
    kinds: tuple[str, ...],
    priced: Penalty,
    excess: Any,
) -> dict[str, np.ndarray]:
    """Curves of all cells, ``[step, cell, seed, ...]``: one ensemble, each seed alike in all."""
    text, length = open_text(spec.task), spec.model.n_ctx or 0
    source = WindowSource(spec.batch, length, device_tokens(text.tokens.train))
    repeated = RepeatedSource(
        spec.texts, length, spec.model.d_vocab, spec.min_period, spec.max_period, distinct=True
    )
    windows = jnp.asarray(spaced_windows(text.tokens.validation, spec.windows, length))
    exam = repeated(derive(key, "repeats"))
    cells = cells_on_text(spec.rewards)
    prices = np.array([[dose * (kind == each) for each in kinds] for kind, dose in cells])
    one = new_members(derive(key, "members"), spec.optim.learning_rate, jnp.zeros(spec.seeds))
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
    split = (len(cells), spec.seeds)
    curves = {
        name: values.reshape(len(values), *split, *values.shape[2:])
        for name, values in trained.curves.items()
    }
    return curves | {"alive": trained.alive.reshape(split), "step": trained.steps}
