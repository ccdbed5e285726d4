"""Superposition makes a toy model easy to attack: vulnerability over features per dimension.

Networks of the uniform sweep (all features of one importance) are attacked by a change of the input
of a tenth of its mean norm, along the direction that the weights name and by gradient ascent. A
second ensemble is trained against such attacks of growing strength.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int, Key

from circuitax.config.ranges import Positive
from circuitax.kernel.keys import at_index, derive, member_keys, uniforms
from circuitax.kernel.toy import feature_columns
from circuitax.kernel.weights import TiedWeights
from circuitax.kit.measured_training import Trained
from circuitax.kit.members import crossed_training
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec, init_weights
from circuitax.superposition.expected_loss import Convention
from circuitax.superposition.features import (
    analytic_errors,
    attack_directions,
    dimensions_per_feature,
    gradient_errors,
    input_errors,
    norms,
)
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyProblem, tied_columns, weighted_squared_error
from experiments.superposition.shared.cells import by_cell, cells_over


@dataclass(frozen=True)
class Spec:
    """The uniform sweep, attacked.

    Attributes:
        n_features: The paper has 400.
        n_hidden: The paper has 30.
        sparsest: 1/p of the sparsest cell; densities are evenly spaced in log p from 1.
        densities: Cells of the sweep.
        attack: Norm of the attack over the mean norm of an input; 0.1 in the paper.
        ascent_steps: Of the attack by gradient.
        samples: Inputs that are attacked; each seed has its own, from the same uniform numbers at
            every density.
        defence: Strengths of the attacks trained against, over the mean norm; 0 is none.
        defence_density: p of adversarial training.
        seeds: Independent initialisations and data streams.
        batch_size: Fresh samples a step.
        optim: The paper does not state it.
    """

    n_features: Annotated[int, "[2, inf)"] = 64
    n_hidden: Annotated[int, "[1, n_features)"] = 8
    sparsest: Annotated[float, "(1, 1000]"] = 40.0
    densities: Annotated[int, "[2, inf)"] = 10
    attack: Annotated[float, "(0, 1]"] = 0.1
    ascent_steps: Positive = 5
    samples: Positive = 512
    defence: Annotated[tuple[float, ...], "[0, 1]"] = (0.0, 0.1, 0.2, 0.4, 0.8)
    defence_density: Annotated[float, "(0, 1]"] = 0.1
    seeds: Positive = 8
    batch_size: Positive = 256
    optim: OptimSpec = field(default_factory=OptimSpec)


class AttackedHyper(NamedTuple):
    """Densities and importances of the features, and the L2 norm of the attack, of one member."""

    density: Float[Array, "*member n_features"]
    importance: Float[Array, "*member n_features"]
    strength: Float[Array, "*member"]


class AttackedBatch(NamedTuple):
    """Uniforms of one step, the feature whose direction is used for each sample, and its sign."""

    features: Float[Array, "n_features batch"]
    target: Int[Array, " batch"]
    sign: Float[Array, " batch"]


@dataclass(frozen=True)
class AdversarialToy:
    """The tied model, trained to give back the input before the attack; sum loss.

    The attack is along ``(W^T W)_i`` of the present weights, for a feature i that is drawn for each
    sample; its gradient with respect to the weights is not followed.

    Source: toy-models paper, "Relationship to adversarial robustness" (adversarial training).
    """

    model: ToySpec
    batch_size: int = 1024

    def init(self, key: Key[Array, ""], hyper: AttackedHyper) -> TiedWeights:
        """Gaussian weights, zero biases."""
        return TiedWeights(*init_weights(self.model, key))

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> AttackedBatch:
        """Uniforms of the features, and the attacked feature with its sign."""
        key, n = at_index(key, step), self.model.n_features
        shape = (self.batch_size,)
        return AttackedBatch(
            uniforms(derive(key, "features"), (n, *shape)),
            jax.random.randint(derive(key, "target"), shape, 0, n),
            jax.random.rademacher(derive(key, "sign"), shape, float),
        )

    def loss(
        self, params: TiedWeights, batch: AttackedBatch, hyper: AttackedHyper
    ) -> Float[Array, ""]:
        """Importance-weighted squared error of one attacked batch."""
        x = feature_columns(batch.features, hyper.density, signed=False)
        directions = attack_directions(jax.lax.stop_gradient(params.W))
        attacked = x + hyper.strength * batch.sign[None] * directions[batch.target].T
        output = tied_columns(params, attacked, self.model.output)
        return weighted_squared_error(x, output, hyper.importance, Convention.sum, feature_axis=0)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train over density, and against attacks at one; attack all networks."""
    density = spec.sparsest ** -np.linspace(0, 1, spec.densities)
    trained, lost = _trained(derive(key, "sweep"), spec, density, lab)
    attack = partial(_attacked, spec, derive(key, "evaluation"))
    by_density = lab.stage("attack", attack, trained, density)
    defended, lost_defended = _defended(derive(key, "defence"), spec, lab)
    once = np.full(len(spec.defence), spec.defence_density)
    by_defence = lab.stage("attack-defended", attack, defended, once)
    arrays: dict[str, Any] = {k: (("density", "seed"), v) for k, v in by_density.items()}
    arrays |= {f"defended_{k}": (("defence", "seed"), v) for k, v in by_defence.items()}
    coords = {
        "density": density,
        "defence": np.asarray(spec.defence),
        "seed": np.arange(spec.seeds),
    }
    notes = {
        "loss": "sum over features, mean over the samples of a seed",
        "attack": "analytic: for each input, the feature and the sign that hurt most; "
        "feature: one feature and sign for all inputs; inputs are not clipped to [0, 1]",
        "kept": "features with at least half the greatest norm",
        "vulnerability": "added loss over that of a model without superposition, strength^2",
        "selection": "all seeds that stayed finite; none is left out otherwise",
        "members": {"sweep": lost, "defence": lost_defended},
        "data": "one stream a seed, shared by all cells; seeds are independent",
        "weight_decay": spec.optim.weight_decay,
        "attack_strength": spec.attack,
    }
    return xr.Dataset(arrays, coords, notes)


def _trained(
    key: jax.Array, spec: Spec, density: np.ndarray, lab: Lab
) -> tuple[TiedWeights, dict[str, Any]]:
    """Every seed at every density, ``[cell, seed, ...]``; not a number where one diverged."""
    cells = cells_over(density, np.ones(spec.n_features))
    problem = ToyProblem(ToySpec(spec.n_features, spec.n_hidden), spec.batch_size, Convention.sum)
    found = crossed_training(lab, "sweep", key, problem, spec.optim, cells, seeds=spec.seeds)
    return _of_cells(found, spec.seeds), found.divergence


def _defended(key: jax.Array, spec: Spec, lab: Lab) -> tuple[TiedWeights, dict[str, Any]]:
    """Every seed trained against every strength, ``[cell, seed, ...]``."""
    ones = jnp.ones((len(spec.defence), spec.n_features))
    x = _inputs(derive(key, "norm"), spec.defence_density, spec.samples, spec.n_features)
    strength = jnp.asarray(spec.defence) * _mean_norm(x)
    cells = AttackedHyper(spec.defence_density * ones, ones, strength)
    problem = AdversarialToy(ToySpec(spec.n_features, spec.n_hidden), spec.batch_size)
    found = crossed_training(lab, "defence", key, problem, spec.optim, cells, seeds=spec.seeds)
    return _of_cells(found, spec.seeds), found.divergence


def _of_cells(found: Trained, seeds: int) -> TiedWeights:
    W, b, alive = (jnp.asarray(by_cell(part, seeds)) for part in (*found.models, found.alive))
    masks = alive[..., None, None], alive[..., None]
    return TiedWeights(*(jnp.where(on, a, jnp.nan) for on, a in zip(masks, (W, b), strict=True)))


def _attacked(
    spec: Spec, key: jax.Array, models: TiedWeights, density: np.ndarray
) -> dict[str, Array]:
    """Effects of attacks on every model ``[cell, seed]``, on inputs of each seed."""
    n, seeds = models.W.shape[-1], member_keys(derive(key, "inputs"), models.W.shape[1])

    def one_cell(cell: tuple[TiedWeights, Array]) -> dict[str, Array]:
        all_seeds, p = cell

        def one_seed(own: tuple[TiedWeights, Array]) -> dict[str, Array]:
            weights, seed = own
            x = _inputs(seed, p, spec.samples, n)
            return _one_model(spec, x, spec.attack * _mean_norm(x), weights)

        return jax.lax.map(one_seed, (all_seeds, seeds))

    return jax.jit(partial(jax.lax.map, one_cell))((models, jnp.asarray(density, jnp.float32)))


def _one_model(
    spec: Spec, x: Float[Array, "batch n"], strength: Array, weights: TiedWeights
) -> dict[str, Array]:
    ones = jnp.ones(x.shape[1])
    clean = input_errors(weights, x, ones, jnp.zeros(x.shape[1]))
    analytic = analytic_errors(weights, x, ones, strength)
    ascent = gradient_errors(weights, x, ones, strength, n_steps=spec.ascent_steps)
    slope = jax.grad(lambda c: jnp.sum(input_errors(weights, x, ones, c)))(jnp.zeros_like(x))
    size = norms(weights.W)

    def vulnerability(loss: Array) -> Array:
        return (loss - jnp.mean(clean)) / strength**2

    return {
        "loss": jnp.mean(clean),
        "analytic": vulnerability(jnp.mean(jnp.max(analytic, axis=0))),
        "feature": vulnerability(jnp.max(jnp.mean(analytic, axis=1))),
        "gradient": vulnerability(jnp.mean(ascent)),
        "masked": jnp.mean(jnp.all(slope == 0, axis=1)),
        "features_per_dimension": 1 / dimensions_per_feature(weights.W),
        "kept_per_dimension": jnp.sum(size >= jnp.max(size) / 2) / weights.W.shape[0],
    }


def _inputs(key: jax.Array, density: float | Array, samples: int, n: int) -> Float[Array, "b n"]:
    u = jax.random.uniform(key, (n, samples), jnp.float32)
    return feature_columns(u, jnp.full(n, density, jnp.float32), signed=False).T


def _mean_norm(x: Float[Array, "batch n"]) -> Float[Array, ""]:
    return jnp.mean(jnp.sqrt(jnp.sum(x**2, axis=1)))
