"""Scaling with width: strong superposition, weak superposition, and the decay between them.

Features of power-law frequencies, one on in a sample on average, in models of several widths. The
sign and strength of weight decay decides how many features a model represents (Liu, Liu and Gore
2025, arXiv 2505.10465).
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Key

from circuitax.config.ranges import Positive, PositiveNumber
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.weights import TiedWeights
from circuitax.kit.members import crossed_training
from circuitax.lab.lab import Lab
from circuitax.projection.coherence import mean_overlaps
from circuitax.projection.packings import welch_bound
from circuitax.superposition.feature_laws import power_law, unlearned_loss
from circuitax.superposition.features import norms
from circuitax.training.ensemble import Mapping, divergence
from circuitax.training.optim import OptimSpec
from experiments.directions.toy_scaling.problem import ScalingHyper, ScalingToy

# Of norms, for each unit of them.
CELLS = 256


@dataclass(frozen=True)
class Spec:
    """Widths, and arms that differ in the law of frequencies and in decay.

    Attributes:
        n_features: n.
        widths: m.
        alpha: Exponent of the frequencies ``p_i ∝ i^-alpha`` of each arm.
        decay: γ of each arm, of either sign, as many as ``alpha``.
        active: Features that are on in a sample, on average.
        seeds: Independent initialisations and data streams, the same in all arms.
        batch_size: Fresh samples in each step.
        optim: Its ``weight_decay`` must be 0: the arms have their own.
        exam_size: Fresh samples on which a seed's losses are measured.
    """

    n_features: int = 160
    widths: Annotated[Any, "[1, n_features)", "increasing"] = (12, 17, 24, 34)
    alpha: Annotated[Any, "[0, inf)"] = (1.0, 1.0)
    decay: Any = (-1.0, 0.5)
    active: PositiveNumber = 1.0
    seeds: Positive = 8
    batch_size: Positive = 96
    optim: OptimSpec = field(default_factory=lambda: OptimSpec(weight_decay=0.0))
    exam_size: Positive = 8192

    def __post_init__(self) -> None:
        if len(self.alpha) != len(self.decay):
            raise ValueError(f"decay={self.decay} must be as long as alpha={self.alpha}")
        if self.optim.weight_decay:
            raise ValueError(
                f"optim.weight_decay={self.optim.weight_decay} must be 0: arms have theirs"
            )
        for alpha in self.alpha:
            power_law(self.n_features, alpha, self.active)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train every arm with every seed, width by width; measure losses, norms, overlaps."""
    density = np.stack([power_law(spec.n_features, a, spec.active) for a in spec.alpha])
    widths = np.asarray(spec.widths)
    parts = [_of_width(spec, key, lab, int(width), density) for width in widths]
    found = {name: np.stack([part[name] for part in parts], axis=1) for name in parts[0]}
    tail = np.stack([unlearned_loss(p, widths) for p in density], axis=1)
    dims = ("seed", "width", "arm")
    arrays: dict[str, Any] = {
        "loss": (dims, np.where(found["alive"], found["loss"], np.nan)),
        "norm": ((*dims, "feature"), cell_middles(found["norm"])),
        "overlap": (dims, found["overlap"]),
        "alive": (dims, found["alive"]),
        "welch": ("width", welch_bound(spec.n_features, widths) ** 2),
        "ignored": (("width", "arm"), tail),
        "density": (("arm", "feature"), density),
        "alpha": ("arm", np.asarray(spec.alpha, float)),
        "decay": ("arm", np.asarray(spec.decay, float)),
    }
    notes = {
        "members": divergence(*(jnp.ravel(found[name]) for name in ("alive", "step"))),
        "norm": f"the middle of its cell; cells are 1/{CELLS} wide",
        "loss": f"on {spec.exam_size} fresh samples, the same for all widths and arms of a seed",
    }
    return xr.Dataset(arrays, {"seed": np.arange(spec.seeds), "width": widths}, notes)


def _of_width(
    spec: Spec, key: jax.Array, lab: Lab, width: int, density: np.ndarray
) -> dict[str, np.ndarray]:
    """The networks trained at one width, every array ``[seed, arm, ...]``."""
    problem = ScalingToy(spec.n_features, width, spec.batch_size)
    p, decay = jnp.asarray(density, float), jnp.asarray(spec.decay, float)
    trained = crossed_training(
        lab,
        f"train-{width}",
        derive(key, "train"),
        problem,
        spec.optim,
        ScalingHyper(p, decay),
        seeds=spec.seeds,
        mapping=Mapping.auto,
    )
    exam_key = derive(key, "exam")
    grown = np.tile(np.asarray(spec.decay) < 0, spec.seeds)
    overlap = np.full(grown.size, np.nan)
    overlap[grown] = _mean_square_overlaps(np.asarray(trained.models.W)[grown])
    found = {
        "loss": lab.stage(f"losses-{width}", _losses, spec, exam_key, trained.models, p),
        "norm": jax.vmap(norms)(trained.models.W),
        "overlap": overlap,
        "alive": trained.alive,
        "step": trained.state.step,
    }
    arrays = {name: np.asarray(value) for name, value in found.items()}
    shape = (spec.seeds, len(spec.alpha))
    return {name: value.reshape(*shape, *value.shape[1:]) for name, value in arrays.items()}


def cell_middles(norm: np.ndarray) -> np.ndarray:
    """Norms as middles of cells: most of the record, and 1/2 and 1 remain edges."""
    return np.asarray((np.floor(norm * CELLS) + 0.5) / CELLS, np.float32)


def _mean_square_overlaps(W: Float[np.ndarray, "member n_hidden n_features"]) -> np.ndarray:
    """Mean square cosine of two features of each member, in float64."""
    with jax.enable_x64(True):
        features = jnp.asarray(W.swapaxes(1, 2), jnp.float64)
        return np.asarray(jax.jit(partial(jax.lax.map, mean_overlaps))(features).mean_square)


def _losses(
    spec: Spec, key: Key[Array, ""], models: TiedWeights, density: Float[Array, "arm n_features"]
) -> np.ndarray:
    """The loss of every member of one width on the exam of its seed, ``[member]``."""
    arms = len(spec.alpha)
    exam = ScalingToy(spec.n_features, models.W.shape[1], spec.exam_size)
    hyper = ScalingHyper(density, jnp.zeros(arms))

    def of_seed(given: tuple[Array, TiedWeights]) -> Float[Array, " arm"]:
        batch = exam.batch(given[0], jnp.zeros((), int))
        return jax.lax.map(lambda arm: exam.loss(arm[0], batch, arm[1]), (given[1], hyper))

    # On the host first: members lie on several devices, which would wait for each other at every
    # seed while one of them computes an exam.
    split = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, arms, *leaf.shape[1:]), models)
    seeds = (member_keys(key, spec.seeds), split)
    return np.asarray(jax.jit(partial(jax.lax.map, of_seed))(seeds)).ravel()
