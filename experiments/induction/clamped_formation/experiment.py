"""Induction heads form while one, two or all of their parts are given from the first step on."""

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Annotated

import jax
import jax.numpy as jnp
import xarray as xr
from jaxtyping import Array, Bool, Float, Int

from circuitax.config.ranges import Positive
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import ablate_heads
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.measured_training import measured_training
from circuitax.kit.members import drawn_by_each, each_with_own, file_name_of, stack_named
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.optim import OptimSpec
from experiments.induction.clamped_formation.pairs import (
    LENGTH,
    PARTS,
    Answer,
    PairSource,
    answer_loss,
)

SUBSETS = tuple(product((False, True), repeat=len(PARTS)))
# All but one part are given: what is left to learn is the part of that number.
ALL_BUT = tuple(tuple(i != left for i in range(len(PARTS))) for left in range(len(PARTS)))
FEW = (SUBSETS[0], *ALL_BUT[1:])
# What is given (nothing, all but matching, all but copying), times the classes and the labels.
ARMS = {"plain": (SUBSETS, 1, 1), "more classes": (FEW, 4, 1), "more labels": (FEW, 1, 2)}


@dataclass(frozen=True)
class Spec:
    """One recipe for all models.

    Attributes:
        model: Sizes; layers, tokens and the final norm are set by the experiment.
        task: Labelled pairs, with the fewer classes and labels.
        optim: Optimizer.
        seeds: Members for each choice of parts, each with its own initialisation and data.
        measure_every: Steps between two measurements.
        texts: Texts to measure on; each member has its own.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    task: PairSource = field(default_factory=PairSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    seeds: Positive = 16
    measure_every: Annotated[int, "divides optim.steps"] = 20
    texts: Positive = 64


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train models with every choice of given parts, and with more classes and labels."""
    curves, ends = zip(*(_arm(spec, derive(key, name), lab, name) for name in ARMS), strict=True)
    texts = drawn_by_each(
        replace(spec.task, batch=8 * spec.texts), derive(key, "heads"), spec.seeds
    )
    looks = [each_with_own(measure_heads, texts)(models) for models in ends[0]]
    axes = {"strength": ("head",), "kept": ("count",), "without": (), "pair": ("first", "head")}
    heads = xr.Dataset(
        {key: (("when", "member", *rest), stack_named(looks, key)) for key, rest in axes.items()},
        coords={"when": ["start", "end"], "count": [1, 2]},
    )
    tokens = curves[0].step * spec.task.batch * LENGTH
    return xr.concat(curves, "cell").merge(heads).assign_coords(tokens=tokens, left=list(PARTS))


def _arm(spec: Spec, key: jax.Array, lab: Lab, name: str) -> tuple[xr.Dataset, list[Model]]:
    """One ensemble for all choices; models of nothing given, before training and after."""
    subsets, more_classes, more_labels = ARMS[name]
    source = replace(
        spec.task,
        n_classes=more_classes * spec.task.n_classes,
        n_labels=more_labels * spec.task.n_labels,
    )
    sizes = spec.model.replace(
        n_layers=2,
        final_norm=False,
        d_vocab=source.n_labels + source.n_classes,
        d_vocab_out=source.n_labels,
        n_ctx=LENGTH - 1,
    )
    parts = jnp.repeat(jnp.array(subsets), spec.seeds, axis=0)
    plan = Plan(Answer(Transformer(sizes), source), spec.optim, spec.measure_every, mesh=lab.mesh)
    members = new_members(derive(key, "members"), spec.optim.learning_rate, parts)
    state = init(plan, members)
    as_models = partial(model_from_params, spec=sizes)
    plain = partial(jax.tree.map, lambda leaf: leaf[: spec.seeds])
    start = plain(as_models(state.params))
    exams = drawn_by_each(replace(source, batch=spec.texts), derive(key, "exam"), len(parts))
    trained = measured_training(
        lab,
        file_name_of(name),
        state,
        advance(plan, members),
        steps=spec.optim.steps,
        every=spec.measure_every,
        measure=each_with_own(measure, exams, parts),
        as_models=as_models,
    )
    over, split = ("step", "cell", "member", "left"), (len(subsets), spec.seeds)
    found = {
        key: (over[: curve.ndim + 1], curve.reshape(len(curve), *split, *curve.shape[2:]))
        for key, curve in trained.curves.items()
    }
    curves = xr.Dataset(
        found | {"alive": (over[1:3], trained.alive.reshape(split))},
        coords={"step": trained.steps, "cell": [_cell(name, parts) for parts in subsets]},
    )
    return curves, [start, plain(trained.models)]


def _cell(arm: str, parts: tuple[bool, ...]) -> str:
    """What is given in an arm, such as ``"more labels: previous, copying"``."""
    names = [name for name, here in zip(PARTS, parts, strict=True) if here] or ["nothing"]
    prefix = "" if arm == "plain" else f"{arm}: "
    return prefix + ", ".join(names)


def measure(
    model: Model, texts: Int[Array, "text 6"], parts: Bool[Array, " 3"]
) -> dict[str, Array]:
    """Losses of one member: under what it is given, and with each part alone left to it, nats."""
    loss = partial(answer_loss, model, texts)
    return {"loss": loss(parts), "part_loss": jax.lax.map(loss, jnp.array(ALL_BUT))}


def measure_heads(model: Model, texts: Int[Array, "text 6"]) -> dict[str, Array]:
    """What heads of one member do alone and together; shares of right answers.

    strength: attention of heads of layer 2 from the query to the right label, less to the wrong
        one, on the first half of the texts; it orders them. The others are of the second half.
    kept: with the strongest or two strongest heads of layer 2; without: with all others.
    pair: with one head of layer 1 and one of layer 2.
    """
    half, n = texts.shape[0] // 2, model.spec.n_heads

    def told(text: Array) -> Array:
        looked = forward(model, text[:-1])[1].patterns[1][:, -1, 1::2]
        return looked @ jnp.where(text[1:-1:2] == text[-1], 1.0, -1.0)

    def right(second: Float[Array, " n_heads"], first: Float[Array, " n_heads"]) -> Array:
        edits = ablate_heads(1 - jnp.stack([first, second]))
        told = jax.vmap(lambda text: forward(model, text[:-1], edits)[0][-1].argmax())
        return (told(texts[half:]) == texts[half:, -1]).mean()

    strength = jax.vmap(told)(texts[:half]).mean(axis=0)
    rank, every, one = jnp.argsort(jnp.argsort(-strength)), jnp.ones(n), jnp.eye(n)
    alone = jax.vmap(right, in_axes=(0, None))
    return {
        "strength": strength,
        "kept": alone(jnp.stack([rank < 1, rank < 2]).astype(float), every),
        "without": right((rank > 0).astype(float), every),
        "pair": jax.vmap(alone, in_axes=(None, 0))(one, one),
    }
