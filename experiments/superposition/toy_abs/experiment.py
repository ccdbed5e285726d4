"""Computation in superposition: absolute values of more features than there are neurons for.

``y = ReLU(ReLU(x W_in) W_out + b)`` is trained to give ``|x|``: with two neurons for each feature,
with too few over a sweep of densities, and at a size where two features share a neuron unequally
("Toy Models of Superposition", computation in superposition).
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int, Key

from circuitax.config.ranges import Positive, PositiveNumber
from circuitax.kernel.keys import at_index, derive, uniforms
from circuitax.kernel.toy import feature_columns
from circuitax.kernel.weights import MLPWeights
from circuitax.kit.members import crossed_training
from circuitax.lab.lab import Lab
from circuitax.superposition.expected_loss import Convention
from circuitax.superposition.features import purity
from circuitax.superposition.hidden_layers import asymmetric_motif, serving
from circuitax.training.ensemble import RULE
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, weighted_squared_error
from experiments.superposition.shared.cells import by_cell, cells_over

# A neuron that does less than this for every feature is not counted.
LEAST_SERVING = 0.25
# At least this share of the squared input weights belongs to the feature of a monosemantic neuron.
LEAST_PURITY = 0.9


@dataclass(frozen=True)
class Arm:
    """One model at several densities.

    Attributes:
        density: p of every cell.
        importance_base: ``I = base^i``.
        seeds: Independent initialisations and data streams.
    """

    n_features: Positive = 3
    n_hidden: Positive = 6
    density: Annotated[tuple[float, ...], "(0, 1]"] = (0.3,)
    importance_base: Annotated[float, "(0, 1]"] = 1.0
    seeds: Positive = 16


@dataclass(frozen=True)
class Spec:
    """Three arms with one optimizer.

    Attributes:
        sanity: Two neurons for each feature, one density.
        sweep: Fewer neurons than features, over density.
        motif: The size of the asymmetric motif.
        init_scale: Standard deviation of the initial weights over Kaiming's. At 1, networks of many
            unimportant features end where neurons mix features that they mixed at the start.
        batch_size: Fresh samples a step.
        samples: Inputs that trained networks are measured on, common to all.
        optim: The paper does not state it.
    """

    sanity: Arm = field(default_factory=Arm)
    sweep: Arm = field(default_factory=Arm)
    motif: Arm = field(default_factory=Arm)
    init_scale: PositiveNumber = 0.2
    batch_size: Positive = 256
    samples: Positive = 16_384
    optim: OptimSpec = field(default_factory=OptimSpec)


@dataclass(frozen=True)
class AbsoluteToy:
    """``y = ReLU(ReLU(x W_in) W_out + b_out)``, trained to give ``|x|``; sum loss.

    There is no hidden bias: with one, a neuron could be shifted into its linear part. Features are
    uniform on [-1, 1] with probability p, and 0 otherwise. Samples are columns, as in `toy`.

    Source: toy-models paper, "Computation in superposition"; ARENA for the initialisation
        (Kaiming, uniform).
    """

    n_features: int
    n_hidden: int
    batch_size: int = 1024
    init_scale: float = 1.0

    def init(self, key: Key[Array, ""], hyper: ToyHyper) -> MLPWeights:
        """Uniform weights of variance ``2 init_scale^2 / d_in``, zero output biases."""
        n, m, scale = self.n_features, self.n_hidden, self.init_scale
        return MLPWeights(
            W_in=scale * _kaiming(derive(key, "W_in"), n, m),
            W_out=scale * _kaiming(derive(key, "W_out"), m, n),
            b_out=jnp.zeros(n),
        )

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> Float[Array, "n_features batch"]:
        """One uniform for each feature and sample."""
        return uniforms(at_index(key, step), (self.n_features, self.batch_size))

    def loss(
        self, params: MLPWeights, batch: Float[Array, "n_features batch"], hyper: ToyHyper
    ) -> Float[Array, ""]:
        """Importance-weighted squared error of one batch."""
        x = feature_columns(batch, hyper.density, signed=True)
        return weighted_squared_error(
            jnp.abs(x),
            absolute_columns(params, x),
            hyper.importance,
            Convention.sum,
            feature_axis=0,
        )


def absolute_columns(
    weights: MLPWeights, x: Float[Array, "n_features batch"]
) -> Float[Array, "n_features batch"]:
    """The outputs for samples in columns; there is no hidden bias."""
    hidden = jax.nn.relu(weights.W_in.T @ x)
    bias = 0 if weights.b_out is None else weights.b_out[:, None]
    return jax.nn.relu(weights.W_out.T @ hidden + bias)


def _kaiming(key: Key[Array, ""], d_in: int, d_out: int) -> Float[Array, "d_in d_out"]:
    limit = math.sqrt(6 / d_in)
    return jax.random.uniform(key, (d_in, d_out), float, -limit, limit)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train the three arms; look at their neurons."""
    parts, members = [], {}
    for name in ("sanity", "sweep", "motif"):
        arm = getattr(spec, name)
        weights, alive, members[name] = _trained(derive(key, name), spec, name, lab)
        measure = partial(_measured, spec, arm, derive(key, "evaluation"))
        found = lab.stage(f"measure-{name}", measure, weights)
        parts.append(_labelled(name, arm, found, alive))
    motif = lab.stage("motifs", _motifs, weights.W_in, weights.W_out)
    at = np.nonzero(motif["found"])
    cases = {"cell": at[0], "seed": at[1]} | {k: motif[k][at] for k in ("in_ratio", "out_ratio")}
    parts.append(xr.Dataset({f"case_{k}": ("case", v) for k, v in cases.items()}))
    notes = {
        "loss": "sum over features, mean over fresh samples common to all networks",
        "selection": RULE,
        "members": members,
        "data": "one stream a seed, shared by all densities; seeds are independent",
        "weight_decay": spec.optim.weight_decay,
        "init_scale": spec.init_scale,
        "task": "|x|; tasks of different density are different tasks, their losses do not compare",
    }
    return xr.merge(parts).assign_attrs(notes)


def _trained(
    key: jax.Array, spec: Spec, name: str, lab: Lab
) -> tuple[MLPWeights, np.ndarray, dict[str, Any]]:
    """Every seed at every density, ``[density, seed, ...]``."""
    arm = getattr(spec, name)
    cells = cells_over(arm.density, arm.importance_base ** jnp.arange(float(arm.n_features)))
    problem = AbsoluteToy(arm.n_features, arm.n_hidden, spec.batch_size, spec.init_scale)
    trained = crossed_training(lab, name, key, problem, spec.optim, cells, seeds=arm.seeds)
    weights = jax.tree.map(partial(by_cell, seeds=arm.seeds), trained.models)
    return weights, by_cell(trained.alive, arm.seeds), trained.divergence


def _measured(spec: Spec, arm: Arm, key: jax.Array, weights: MLPWeights) -> dict[str, Array]:
    """Error of every feature, and class of every neuron, of each model ``[density, seed]``."""
    u = jax.random.uniform(derive(key, "inputs"), (arm.n_features, spec.samples), jnp.float32)
    importance = arm.importance_base ** jnp.arange(float(arm.n_features))

    def one_model(x: Array, model: MLPWeights) -> dict[str, Array]:
        error = jnp.mean((absolute_columns(model, x) - jnp.abs(x)) ** 2, axis=1)
        does = serving(model.W_in, model.W_out)
        live = jnp.max(does, axis=1) >= LEAST_SERVING
        return {
            "loss": importance @ error,
            "live": live,
            "pure": live & (purity(model.W_in.T) >= LEAST_PURITY),
            "W_in": model.W_in,
            "W_out": model.W_out,
        }

    def one_density(cell: tuple[MLPWeights, Array]) -> dict[str, Array]:
        models, p = cell
        x = feature_columns(u, jnp.full(arm.n_features, p), signed=True)
        return jax.lax.map(partial(one_model, x), models)

    density = jnp.asarray(arm.density, jnp.float32)
    return jax.jit(partial(jax.lax.map, one_density))((weights, density))


def _motifs(W_in: np.ndarray, W_out: np.ndarray) -> dict[str, Array]:
    """Every asymmetric motif and its inequality, ``[density, seed, ...]``."""
    find = jax.vmap(jax.vmap(lambda *ends: asymmetric_motif(*ends)._asdict()))
    return jax.jit(find)(jnp.asarray(W_in), jnp.asarray(W_out))


def _labelled(name: str, arm: Arm, found: dict[str, Any], alive: np.ndarray) -> xr.Dataset:
    """The arrays of one arm, whose axes have names of their own."""
    cell, neuron = (f"{name}_density", f"{name}_seed"), f"{name}_neuron"
    ends = (f"{name}_feature", neuron)
    loss = np.where(alive, found["loss"], np.nan)
    best = np.where(np.isfinite(loss), loss, np.inf).argmin(axis=1)
    arrays: dict[str, Any] = {f"{name}_loss": (cell, loss), f"{name}_best": (cell[0], best)}
    if name == "sanity":
        arrays[f"{name}_W_in"] = ((*cell, *ends), found["W_in"])
        arrays[f"{name}_W_out"] = ((*cell, *ends[::-1]), found["W_out"])
    if name == "sweep":  # of large weights those that the best seed reads
        arrays |= {f"{name}_{k}": ((*cell, neuron), found[k]) for k in ("live", "pure")}
        arrays[f"{name}_W_in"] = ((cell[0], *ends), found["W_in"][np.arange(len(best)), best])
    coords = {cell[0]: np.asarray(arm.density), cell[1]: np.arange(arm.seeds)}
    return xr.Dataset(arrays, coords)
