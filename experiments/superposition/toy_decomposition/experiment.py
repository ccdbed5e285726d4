"""Parameter decomposition without noise: rank-one subcomponents of models whose parts are known.

Targets are toy models with five features in two dimensions and with forty in ten, each as it is and
with an identity map between its encoder and its decoder. Every seed has a target of its own. The
true subcomponents are one for each feature in the encoder, one for each in the decoder, and as many
as there are dimensions in the identity.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.config.ranges import Positive, PositiveNumber
from circuitax.kernel.keys import derive
from circuitax.kernel.weights import TiedWeights
from circuitax.kit.measured_training import chunk_size, measured_training
from circuitax.kit.members import stack_ragged
from circuitax.lab.lab import Lab
from circuitax.models.autoencoder import DecomposedMaps
from circuitax.models.toy import ToySpec
from circuitax.superposition.expected_loss import Convention
from circuitax.training import ensemble
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyProblem
from experiments.superposition.shared.cells import best_trained
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
    """

    small: Target = field(default_factory=Target)
    large: Target = field(default_factory=partial(Target, 40, 10, 1, 200, 1e-4, 2))
    between: Annotated[tuple[bool, ...], "distinct"] = (False, True)
    density: Annotated[float, "(0, 1]"] = 0.05
    samples: Positive = 4096
    target_batch: Positive = 1024
    target_optim: OptimSpec = field(default_factory=OptimSpec)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train the targets, decompose each with and without the identity, and score."""
    decomposed: dict[str, dict[str, np.ndarray]] = {}
    arrays: dict[str, Any] = {}
    losses, sizes = {}, {}
    for size, target in (("small", spec.small), ("large", spec.large)):
        model = ToySpec(target.n_features, target.n_hidden)
        weights, loss = best_trained(
            lab,
            f"targets-{size}",
            derive(key, f"{size} targets"),
            ToyProblem(model, spec.target_batch, Convention.mean),
            spec.target_optim,
            spec.density,
            seeds=target.seeds,
            candidates=target.candidates,
        )
        losses[size] = loss.tolist()
        sizes[size] = [target.n_features, target.n_hidden, target.n_components]
        for between in spec.between:
            name = f"{size} ID" if between else size
            found = _decomposed(derive(key, name), spec, target, weights, name, between, lab)
            alone = found.pop("alone")
            if size == "small":  # of the first seed, for a figure
                prefix = name.replace(" ", "_")
                axes = (f"{prefix}_map", "small_feature", "small_component")
                arrays[f"{prefix}_alone"] = (axes, alone[0])
            decomposed[name] = found
    for name in found:
        rows = stack_ragged([each[name].astype(float) for each in decomposed.values()], axis=0)
        arrays[name] = (("target", "seed", "place")[: rows.ndim], rows)
    coords = {"target": list(decomposed), "place": list(PLACES)}
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


def _decomposed(
    key: jax.Array,
    spec: Spec,
    target: Target,
    weights: TiedWeights,
    name: str,
    between: bool,
    lab: Lab,
) -> dict[str, np.ndarray]:
    """Scores of the decompositions of all seeds, before training (``start_``) and after it."""
    n, m, seeds = target.n_features, target.n_hidden, target.seeds
    W = jnp.asarray(weights.W)
    identity = jnp.broadcast_to(jnp.eye(m), (seeds, m, m))
    maps = (jnp.swapaxes(W, 1, 2), *[identity][: int(between)], W)
    hyper = TargetHyper(
        maps,
        jnp.asarray(weights.b),
        jnp.full((seeds, n), spec.density),
        jnp.full(seeds, target.penalty),
    )
    widths = (n, m, m, n) if between else (n, m, n)
    problem = Decomposition(
        DecomposedMaps(widths, target.n_components, target.d_gate), target.power, target.batch_size
    )
    members = ensemble.new_members(key, target.optim.learning_rate, hyper)
    steps, every = target.optim.steps, chunk_size(target.optim.steps, most=100)
    plan = ensemble.Plan(problem, target.optim, every, mesh=lab.mesh)
    state = ensemble.init(plan, members)
    loop, evaluation = name.replace(" ", "-"), derive(key, "evaluation")
    score = partial(scores, problem, evaluation, spec.samples)
    began = lab.stage(f"start-{loop}", score, state.params, hyper)
    advance = ensemble.advance(plan, members)
    trained = measured_training(lab, loop, state, advance, steps=steps, every=every)
    found = lab.stage(f"score-{loop}", score, trained.models, hyper)
    lost = ~trained.alive
    found = {
        k: np.where(lost.reshape(-1, *[1] * (v.ndim - 1)), np.nan, v) for k, v in found.items()
    }
    return found | {f"start_{k}": began[k] for k in ("cosine", "norm_ratio")}
