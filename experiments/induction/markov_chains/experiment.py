"""Transformers learn Markov chains in context: first uniform, then by counts, then by pairs."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.detectors import induction_scores
from circuitax.circuits.losses import reached
from circuitax.config.ranges import Positive
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.measured_training import language_arm
from circuitax.kit.members import drawn_by_each, each_with_own, file_name_of, stack_named
from circuitax.lab.lab import Lab
from circuitax.training.optim import OptimSpec
from experiments.induction.markov_chains.chains import ChainSource, posterior_mean

# Layers of a model, heads of each, order of the chains that it reads, and whether they are even.
ARMS = {
    "1 layer": (1, 1, 1, False),
    "2 layers": (2, 1, 1, False),
    "2 layers, even": (2, 1, 1, True),
    "2 layers, order 2": (2, 2, 2, False),
}
PREDICTORS = ("uniform", "unigram", "bigram", "trigram")


@dataclass(frozen=True)
class Spec:
    """One recipe for all arms.

    Attributes:
        model: Sizes; layers and heads are set by each arm.
        task: Chains; their order and prior are set by each arm.
        optim: Optimizer.
        seeds: Members of each arm, each with its own initialisation and data.
        measure_every: Steps between two measurements.
        texts: Texts to measure on; each seed has its own.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    task: ChainSource = field(default_factory=ChainSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    seeds: Positive = 16
    measure_every: Annotated[int, "divides optim.steps"] = 20
    texts: Positive = 128

    def __post_init__(self) -> None:
        sizes = (self.model.d_vocab, self.model.n_ctx)
        if sizes != (self.task.d_vocab, self.task.length):
            raise ValueError(
                f"model.d_vocab and model.n_ctx={sizes} must be those of task, "
                f"{(self.task.d_vocab, self.task.length)}"
            )


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train each arm, and measure how far it is from every predictor."""
    found, divergences = {}, {}
    for name, (n_layers, n_heads, order, even) in ARMS.items():
        source = replace(spec.task, order=order, even=even)
        exams = drawn_by_each(
            replace(source, batch=spec.texts), derive(key, "evaluation"), spec.seeds
        )
        trained = language_arm(
            lab,
            file_name_of(name),
            derive(key, name),
            replace(spec.model, n_layers=n_layers, n_heads=n_heads),
            source,
            spec.optim,
            seeds=spec.seeds,
            every=spec.measure_every,
            measure=each_with_own(partial(measure, source=source), exams),
        )
        found[name] = trained.curves | {"alive": trained.alive}
        divergences[name] = trained.divergence
    return _dataset(trained.steps, found).assign_attrs(divergence=divergences)


def measure(model: Model, texts: Array, source: ChainSource) -> dict[str, Array]:
    """Mean divergence ``KL(q ‖ model)`` of every predictor q, and the scores of heads, one member.

    The sum over the next symbol is exact; positions and texts are averaged. From the best predictor
    (counts of the chain's own order) it is the loss above the least that there is.
    """
    predictors = predicted(texts, source)

    def apart(text: Array, q: Array) -> Array:
        logs = jax.nn.log_softmax(forward(model, text)[0])
        return jnp.sum(q * (jnp.log(q) - logs), axis=-1).mean(axis=-1)

    scores = induction_scores(model, texts)
    return {
        "loss": scores.loss_by_position.mean(),
        "distance": jax.vmap(apart)(texts, predictors).mean(axis=0),
        "previous": scores.previous.max(axis=-1),
        "matching": scores.prefix.max(axis=-1) - scores.chance,
    }


def predicted(texts: Array, source: ChainSource) -> Array:
    """Next symbols of every predictor, ``[text, predictor, position, symbol]``; NaN for none."""
    k, orders = source.d_vocab, range(3)

    def one(text: Array) -> Array:
        means = [posterior_mean(text, order, k) for order in orders]
        nothing = jnp.full_like(means[0], jnp.nan)
        known = [mean if order <= source.order else nothing for order, mean in enumerate(means)]
        return jnp.stack([jnp.full_like(means[0], 1 / k), *known])

    return jax.vmap(one)(texts)


def _dataset(steps: np.ndarray, found: dict[str, dict[str, Any]]) -> xr.Dataset:
    over = ("arm", "step", "member")
    axes = {
        "loss": over,
        "distance": (*over, "predictor"),
        "previous": (*over, "layer"),
        "matching": (*over, "layer"),
        "alive": ("arm", "member"),
    }
    # Models of one layer are padded to two.
    data = xr.Dataset(
        {name: (dims, stack_named(found.values(), name, -1)) for name, dims in axes.items()},
        coords={"arm": list(found), "step": steps, "predictor": list(PREDICTORS)},
    )
    for name, layer in (("previous", 0), ("matching", -1)):
        curve = data[name].isel(layer=layer).transpose("arm", "member", "step")
        dates = reached(jnp.asarray(steps), jnp.asarray(curve.values), 0.5)
        data[f"{name}_date"] = ("arm", "member"), np.asarray(dates)
    return data
