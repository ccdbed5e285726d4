"""Parameter decomposition without noise: rank-one subcomponents of models whose parts are known.

Targets are toy models with five features in two dimensions and with forty in ten, each as it is and
with an identity map between its encoder and its decoder. Every seed has a target of its own. The
true subcomponents are one for each feature in the encoder, one for each in the decoder, and as many
as there are dimensions in the identity.
"""

import json
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from circuitax.config.ranges import Positive, PositiveNumber
from circuitax.kernel.keys import derive
from circuitax.kernel.weights import TiedWeights
from circuitax.kit.arms import crossed_training, in_every_seed
from circuitax.kit.measured_training import measured_training
from circuitax.kit.members import stack_ragged
from circuitax.lab.lab import Lab
from circuitax.models.subcomponents import DecomposedMaps
from circuitax.models.toy import ToySpec
from circuitax.superposition.expected_loss import Convention, exact_losses
from circuitax.training import ensemble
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem
from experiments.superposition.toy_decomposition.problem import (
    ALIVE,
    MAGNITUDE,
    Decomposition,
    TargetHyper,
    scores,
)

PLACES = ("encoder", "identity", "decoder")


@dataclass(frozen=True)
class Target:
    """A toy model, and how it is decomposed.

    Attributes:
        n_features: n; 5 and 40 in the papers.
        n_hidden: m; 2 and 10 in the papers.
        candidates: Models trained for each seed, of which the one with the lowest exact loss is
            taken.
        n_components: Subcomponents of each map; 20 and 200 in the paper.
        penalty: Weight of the importances; 3e-3 and 1e-4 in the paper.
        power: Exponent of the importances; 1 and 2 in the paper.
        seeds: Targets and decompositions, each with its own data.
        batch_size: Fresh samples of a step of the decomposition; 4096 in the paper.
        d_gate: Hidden units of an importance function; 16 in the paper.
        optim: Of decompositions; Adam at 1e-3 with a cosine and 40,000 steps in the paper.
        chunk: Steps between two returns to Python.
    """

    n_features: Positive = 5
    n_hidden: Positive = 2
    candidates: Positive = 4
    n_components: Positive = 20
    penalty: PositiveNumber = 3e-3
    power: Positive = 1
    seeds: Annotated[int, "[2, inf)"] = 8
    batch_size: Positive = 4096
    d_gate: Positive = 16
    optim: OptimSpec = field(default_factory=OptimSpec)
    chunk: Annotated[int, "divides optim.steps"] = 100


@dataclass(frozen=True)
class Spec:
    """Targets and their decomposition.

    Attributes:
        small: Five features in two dimensions.
        large: Forty features in ten dimensions.
        between: Whether there is an identity between the maps: false, true, or one after the other.
        density: p of every feature; 0.05 in the papers.
        samples: Samples that a decomposition is measured on, common to all.
        target_batch: Fresh samples of a step of a target.
        target_optim: Of targets; AdamW at 5e-3 in the papers.
        target_chunk: Steps of a target between two returns to Python.
    """

    small: Target = field(default_factory=Target)
    large: Target = field(default_factory=partial(Target, 40, 10, 1, 200, 1e-4, 2))
    between: Annotated[tuple[bool, ...], "distinct"] = (False, True)
    density: Annotated[float, "(0, 1]"] = 0.05
    samples: Positive = 4096
    target_batch: Positive = 1024
    target_optim: OptimSpec = field(default_factory=OptimSpec)
    target_chunk: Annotated[int, "divides target_optim.steps"] = 100


class Targets(NamedTuple):
    """The model of every seed."""

    weights: TiedWeights  # [seed, ...]
    loss: Float[np.ndarray, " seed"]  # exact, summed over features


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train and export the targets, decompose each with and without the identity, and score."""
    decomposed: dict[str, dict[str, np.ndarray]] = {}
    arrays: dict[str, Any] = {}
    losses: dict[str, list[float]] = {}
    for size, target in (("small", spec.small), ("large", spec.large)):
        targets = _targets(derive(key, f"{size} targets"), spec, target, size, lab)
        losses[size] = targets.loss.tolist()
        _export(lab, spec, target, size, targets)
        if size == "small":
            axes = ("small_seed", "small_hidden", "small_feature")
            arrays["small_W"] = (axes, targets.weights.W)
        for between in spec.between:
            name = f"{size} ID" if between else size
            found = _decomposed(derive(key, name), spec, target, targets, name, between, lab)
            if size == "small":
                arrays |= _first_seed(name, found)
            decomposed[name] = found
    places = {"alive": ("target", "seed", "place")}
    for name in next(iter(decomposed.values())):
        if not name.startswith("first"):
            rows = stack_ragged(
                [found[name].astype(float) for found in decomposed.values()], axis=0
            )
            arrays[name] = (places.get(name, ("target", "seed")), rows)
    coords = {
        "target": list(decomposed),
        "place": list(PLACES),
    }
    sizes = {
        name: [target.n_features, target.n_hidden, target.n_components]
        for name, target in (("small", spec.small), ("large", spec.large))
    }
    notes = {
        "sizes": sizes,
        "target_loss": losses,
        "alive": f"importance above {ALIVE} on any of {spec.samples} samples",
        "alone": f"one feature on, at {MAGNITUDE}",
        "seeds": "target, decomposition and data are each seed's own; all seeds count",
        "selection": "of the candidates of a seed, the target with the lowest exact loss",
        "density": spec.density,
        "weight_decay": {"targets": spec.target_optim.weight_decay, "method": 0.0},
    }
    return xr.Dataset(arrays, coords, notes)


def _targets(key: jax.Array, spec: Spec, target: Target, size: str, lab: Lab) -> Targets:
    """The best candidate of every seed."""
    n, m = target.n_features, target.n_hidden
    cell = ToyHyper(jnp.full((1, n), spec.density), jnp.ones((1, n)))
    problem = ToyProblem(ToySpec(n, m), spec.target_batch, Convention.mean)
    total = target.seeds * target.candidates
    trained = crossed_training(
        lab,
        f"targets-{size}",
        key,
        problem,
        spec.target_optim,
        cell,
        seeds=total,
        chunk=spec.target_chunk,
    )
    every = in_every_seed(cell, total)
    loss = lab.stage(f"target-loss-{size}", exact_losses, trained.models, *every)
    by_seed = np.where(trained.alive, loss, np.inf).reshape(target.seeds, target.candidates)
    best = np.arange(target.seeds) * target.candidates + by_seed.argmin(axis=1)
    return Targets(TiedWeights(*(np.asarray(a)[best] for a in trained.models)), loss[best])


def _export(lab: Lab, spec: Spec, target: Target, size: str, targets: Targets) -> None:
    """The targets of all seeds as one safetensors file, with a JSON description beside it."""
    name = f"target-{target.n_features}-{target.n_hidden}"
    lab.save_arrays(name, {"W": targets.weights.W, "b": targets.weights.b})
    facts = {
        "model": "x' = ReLU(x W^T W + b), rows are samples; W [seed, n_hidden, n_features]",
        "with_identity": "the same model, with an identity of n_hidden between W^T and W",
        "features": "on with probability density, then uniform on [0, 1), independent",
        "density": spec.density,
        "n_features": target.n_features,
        "n_hidden": target.n_hidden,
        "true_subcomponents": "column i of W with input i, in the encoder; the same with output i, "
        "in the decoder; n_hidden in the identity",
        "exact_loss": targets.loss.tolist(),
    }
    lab.save_text(f"{name}.json", json.dumps(facts, indent=1) + "\n")


def _decomposed(
    key: jax.Array,
    spec: Spec,
    target: Target,
    targets: Targets,
    name: str,
    between: bool,
    lab: Lab,
) -> dict[str, np.ndarray]:
    """Scores of the decompositions of all seeds, before training (``start_``) and after it."""
    n, m, seeds = target.n_features, target.n_hidden, target.seeds
    W = jnp.asarray(targets.weights.W)
    identity = jnp.broadcast_to(jnp.eye(m), (seeds, m, m))
    maps = (jnp.swapaxes(W, 1, 2), *[identity][: int(between)], W)
    hyper = TargetHyper(
        maps,
        jnp.asarray(targets.weights.b),
        jnp.full((seeds, n), spec.density),
        jnp.full(seeds, target.penalty),
    )
    widths = (n, m, m, n) if between else (n, m, n)
    problem = Decomposition(
        DecomposedMaps(widths, target.n_components, target.d_gate), target.power, target.batch_size
    )
    members = ensemble.new_members(key, target.optim.learning_rate, hyper)
    plan = ensemble.Plan(problem, target.optim, target.chunk, mesh=lab.mesh)
    state = ensemble.init(plan, members)
    loop, evaluation = name.replace(" ", "-"), derive(key, "evaluation")
    score = partial(scores, problem, evaluation, spec.samples)
    began = lab.stage(f"start-{loop}", score, state.params, hyper)
    advance = ensemble.advance(plan, members)
    steps, every = target.optim.steps, target.chunk
    trained = measured_training(lab, loop, state, advance, steps=steps, every=every)
    found = lab.stage(f"score-{loop}", score, trained.models, hyper)
    lost = ~trained.alive
    found = {
        k: np.where(lost.reshape(-1, *[1] * (v.ndim - 1)), np.nan, v) for k, v in found.items()
    }
    starts = ("cosine", "rank_one", "norm_ratio")
    return found | {f"start_{k}": began[k] for k in starts}


def _first_seed(name: str, found: dict[str, np.ndarray]) -> dict[str, Any]:
    """The subcomponents of the encoder and all importances, of the first seed, for figures."""
    prefix, component, feature = name.replace(" ", "_"), "small_component", "small_feature"
    return {
        f"{prefix}_alone": ((f"{prefix}_map", feature, component), found["first_alone"][0]),
        f"{prefix}_V": ((component, feature), found["first_V"][0]),
        f"{prefix}_U": ((component, "small_hidden"), found["first_U"][0]),
    }
