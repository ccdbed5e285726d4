"""A price on composition in the loss: is it the circuit that the phase change waits for?"""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.detectors import induction_scores
from circuitax.config.ranges import Positive
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.measured_training import language_arm
from circuitax.kit.members import drawn_by_each, each_with_own
from circuitax.lab.lab import Lab
from circuitax.training.optim import OptimSpec
from experiments.induction.composition_dose.on_text import TextSetting, text_data
from experiments.induction.composition_dose.prices import KINDS, excess, priced
from experiments.induction.shared.training_weights import WEIGHTS, weight_changes, with_weights
from experiments.induction.shared.two_layers import in_context, require_readable


@dataclass(frozen=True)
class Spec:
    """One recipe of two layers, at several prices of each kind of composition.

    Attributes:
        model: Sizes, of two layers.
        task: Texts to train on; those to measure on have distinct symbols.
        optim: Optimizer.
        seeds: Members at each price; their initial weights and texts are the same at all prices.
        doses: Prices in nats for a composition of twice its value by chance; a reward if negative.
        measure_every: Steps between two measurements.
        texts: Texts to measure on; each seed has its own.
        text: Rewards while models learn real text.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    task: RepeatedSource = field(default_factory=RepeatedSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    seeds: Positive = 16
    doses: Annotated[tuple[float, ...], "increasing"] = (-0.1, 0.0, 0.1, 1.0)
    measure_every: Annotated[int, "divides optim.steps"] = 20
    texts: Positive = 64
    text: TextSetting = field(default_factory=TextSetting)

    def __post_init__(self) -> None:
        require_readable(self.model, self.task)
        if self.model.n_layers != 2:
            raise ValueError(f"model.n_layers={self.model.n_layers} must be 2")
        if 0.0 not in self.doses:
            raise ValueError(f"doses={self.doses} must contain 0, to compare with")


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train every kind at every dose from the same weights on the same texts; 0 is trained once."""
    source = RepeatedSource(**{**vars(spec.task), "batch": spec.texts, "distinct": True})
    exams = drawn_by_each(source, derive(key, "evaluation"), spec.seeds)
    examine = each_with_own(partial(measure, task=spec.task), exams)
    found: dict[tuple[str, float], xr.Dataset] = {}
    divergences, changes = {}, {}
    for kind, dose in [(k, d) for k in KINDS for d in spec.doses if d or k == KINDS[0]]:
        name = f"{kind}-{dose:g}" if dose else "none"
        prices = dose * jnp.eye(len(KINDS))[KINDS.index(kind)]
        trained = language_arm(
            lab,
            name,
            derive(key, "members"),
            spec.model,
            spec.task,
            spec.optim,
            seeds=spec.seeds,
            every=spec.measure_every,
            measure=with_weights(examine) if kind == "K" or not dose else examine,
            penalty=priced,
            hyper=jnp.tile(prices, (spec.seeds, 1)),
        )
        curves, over = trained.curves, ("step", "member", "composition")
        if (weights := curves.pop("weights", None)) is not None:
            changes[dose] = xr.Dataset(weight_changes(weights, trained.models, exams))
        arrays = {key: (over[: curve.ndim], curve) for key, curve in curves.items()}
        found[kind, dose] = xr.Dataset(arrays | {"alive": ("member", trained.alive)})
        divergences[name] = trained.divergence
    rows = [[found[k if d else KINDS[0], d] for d in spec.doses] for k in KINDS]
    data = xr.concat([xr.concat(row, "dose") for row in rows], "kind").assign_coords(
        kind=list(KINDS),
        dose=list(spec.doses),
        step=trained.steps,
        composition=list(KINDS),
        weight=list(WEIGHTS),
    )
    shares = xr.concat([changes[dose] for dose in spec.doses], "dose")
    on_text = text_data(spec.text, derive(key, "text"), lab)
    notes = on_text.attrs | {"divergence": divergences | {"text": on_text.attrs["divergence"]}}
    return data.merge(shares).merge(on_text).assign_attrs(notes)


def measure(model: Model, texts: Array, task: RepeatedSource) -> dict[str, Array]:
    """Loss, in-context score, best prefix matching, and excesses."""
    scores = induction_scores(model, texts)
    losses = scores.loss_by_position
    return {
        "loss": losses.mean(),
        "in_context": in_context(task, losses),
        "prefix": scores.prefix.max(),
        "excess": excess(model),
    }
