"""Dictionary learning without noise: four autoencoders on targets whose true features are known.

Targets are hidden vectors of toy models with five features in two dimensions (at its exact optimum)
and of forty in ten (the best of several trained ones), and vectors of ten orthogonal features in
pairs that exclude each other (as the two sides of an absolute value do), are independent, or occur
together. The true dictionary reconstructs each without error, so that every error is regret.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, PyTree

from circuitax.config.ranges import Positive
from circuitax.kernel.keys import derive
from circuitax.kit.members import crossed_training, in_every_seed
from circuitax.lab.lab import Lab
from circuitax.models.autoencoder import Autoencoder, Sparsity
from circuitax.models.toy import ToySpec
from circuitax.superposition.expected_loss import Convention
from circuitax.superposition.optimum import find_optimum
from circuitax.training.dictionary import (
    DictionaryHyper,
    DictionaryLearning,
    cross_cosines,
    draw_pairs,
    hedging,
    hidden_vectors,
    mean_max_cosine,
)
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import SideBySide
from circuitax.training.toy import ToyProblem
from experiments.superposition.shared.cells import best_trained

# P(a feature is on, given that its partner is); None for independent features.
TOGETHER = {"exclusive": 0.0, "independent": None, "together": 0.8}


@dataclass(frozen=True)
class Spec:
    """Targets and methods.

    Attributes:
        small: Features and dimensions of the model at its exact optimum; 5 and 2 in the papers.
        large: Features and dimensions of the trained model; 40 and 10 in the papers.
        pairs: Pairs of the orthogonal targets.
        density: p of every feature; 0.05 in the papers.
        penalties: Weights of the penalty; each seed is trained with each.
        active: Values of k for TopK, as many as penalties.
        seeds: Autoencoders of every cell.
        batch_size: Fresh samples a step.
        samples: Hidden vectors that autoencoders are measured on, common to all.
        optim: Of autoencoders.
        target_optim: Of the large target.
        target_seeds: Of the large target, of which the one with the lowest exact loss is taken.
        restarts: Random starts of the small target's exact optimum.
    """

    small: Annotated[tuple[int, int], "[1, inf)"] = (5, 2)
    large: Annotated[tuple[int, int], "[1, inf)"] = (40, 10)
    pairs: Positive = 5
    density: Annotated[float, "(0, 0.5]"] = 0.05
    penalties: Annotated[tuple[float, ...], "(0, inf)"] = (0.01, 0.03, 0.1)
    active: Annotated[tuple[int, ...], "[1, inf)"] = (1, 2, 4)
    seeds: Annotated[int, "[2, inf)"] = 16
    batch_size: Positive = 256
    samples: Positive = 8192
    optim: OptimSpec = field(default_factory=OptimSpec)
    target_optim: OptimSpec = field(default_factory=OptimSpec)
    target_seeds: Positive = 8
    restarts: Positive = 24

    def __post_init__(self) -> None:
        if len(self.active) != len(self.penalties):
            raise ValueError(f"active={self.active} must be as long as penalties={self.penalties}")


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Make the targets, train all methods on each, and score the dictionaries."""
    small = lab.stage("small", _small, derive(key, "small"), spec)
    problem = ToyProblem(ToySpec(*spec.large), spec.batch_size, Convention.sum)
    given = (derive(key, "large"), problem, spec.target_optim, spec.density)
    (large, _), (large_loss,) = best_trained(lab, "large", *given, candidates=spec.target_seeds)
    truths = {"small": np.asarray(small["W"]).T, "large": np.asarray(large)[0].T}
    losses = {"small": float(small["loss"]), "large": float(large_loss)}
    orthogonal = np.eye(2 * spec.pairs)
    laws, narrow = list(TOGETHER.values()), [TOGETHER["independent"], TOGETHER["together"]]
    score = partial(_scored, spec, lab, derive(key, "autoencoders"))
    parts = [
        *(score(name, truth[None], [None]) for name, truth in truths.items()),
        score("orthogonal", np.repeat(orthogonal[None], len(laws), axis=0), laws),
        score("narrow", np.repeat(orthogonal[None], 2, axis=0), narrow, spec.pairs),
    ]
    found = {kind.value: [cell for part in parts for cell in part[kind]] for kind in Sparsity}
    names = (*truths, *TOGETHER, "narrow independent", "narrow together")
    axes = ("kind", "target", "strength", "seed")
    arrays: dict[str, Any] = {
        name: (axes, np.stack([[cell[name] for cell in cells] for cells in found.values()]))
        for name in next(iter(found.values()))[0]
    }
    coords = {
        "kind": list(found),
        "target": list(names),
        "strength": np.arange(len(spec.penalties)),
        "penalty": ("strength", np.asarray(spec.penalties)),
        "k": ("strength", np.asarray(spec.active)),
        "seed": np.arange(spec.seeds),
    }
    notes = {
        "loss": "squared error over the squared norm of h, on fresh samples common to all",
        "regret": "the true dictionary has error 0 on every target: the error is the regret",
        "selection": "for each method and target, the strength with the highest mean cosine over "
        "seeds; all seeds count",
        "data": "one stream a seed, shared by all strengths and laws; seeds are independent",
        "target_loss": losses,
        "density": spec.density,
        "weight_decay": spec.optim.weight_decay,
    }
    return xr.Dataset(arrays, coords, notes)


def _small(key: jax.Array, spec: Spec) -> dict[str, Any]:
    """The exact optimum of the small model, uniform importance."""
    n, m = spec.small
    with jax.enable_x64(True):
        p, equal = map(jax.device_put, (np.full((1, n), spec.density), np.ones((1, n))))
        best = find_optimum(key, p, equal, n_hidden=m, n_restarts=spec.restarts, thorough=False)
        W, b, loss = (np.asarray(leaf)[0] for leaf in (*best.weights, best.loss))
        return {"W": W, "b": b, "loss": loss}


def _scored(
    spec: Spec,
    lab: Lab,
    key: jax.Array,
    name: str,
    truths: np.ndarray,
    laws: list[float | None],
    width: int | None = None,
) -> dict[Sparsity, list[dict[str, np.ndarray]]]:
    """All methods on targets of one shape: scores ``[strength, seed]`` of each target."""
    n_laws, n_true, d_in = truths.shape
    n_strengths, together = len(spec.penalties), [spec.density if t is None else t for t in laws]
    numbers = (
        np.repeat(truths, n_strengths, axis=0),
        np.full(n_laws * n_strengths, spec.density),
        np.repeat(together, n_strengths),
    )
    strengths = [spec.active if kind is Sparsity.topk else spec.penalties for kind in Sparsity]
    # On the host: JAX would compile a program for each shape.
    cells = tuple(
        DictionaryHyper(
            *(
                jax.device_put(np.asarray(leaf, np.float32))
                for leaf in (*numbers, np.tile(own, n_laws))
            )
        )
        for own in strengths
    )
    modules = (Autoencoder(kind, n_true if width is None else width, d_in) for kind in Sparsity)
    methods = tuple(DictionaryLearning(module, n_true, spec.batch_size) for module in modules)
    trained = crossed_training(
        lab,
        f"methods-{name}",
        derive(key, name),
        SideBySide(methods),  # compiles in half the time of four, and draws their batches once
        spec.optim,
        cells,
        seeds=spec.seeds,
    )
    measure = partial(_measured, spec, methods, derive(key, "evaluation"))
    hyper = in_every_seed(cells, spec.seeds)
    scores = lab.stage(f"score-{name}", measure, trained.models, hyper)
    shape = (spec.seeds, n_laws, n_strengths)
    alive = np.moveaxis(trained.alive.reshape(shape), 0, -1)

    def by_law(found: dict[str, Array]) -> list[dict[str, np.ndarray]]:
        cells = {k: np.moveaxis(np.asarray(v).reshape(shape), 0, -1) for k, v in found.items()}
        masked = {k: np.where(alive, v, np.nan) for k, v in cells.items()}
        return [{k: v[law] for k, v in masked.items()} for law in range(n_laws)]

    return {kind: by_law(found) for kind, found in zip(Sparsity, scores, strict=True)}


def _measured(
    spec: Spec,
    methods: tuple[DictionaryLearning, ...],
    key: jax.Array,
    params: tuple[PyTree, ...],
    hyper: tuple[DictionaryHyper, ...],
) -> tuple[dict[str, Array], ...]:
    """The scores of every member's autoencoders on common samples, a dict for each method."""
    (n_true,) = {problem.n_true for problem in methods}
    draws = draw_pairs(key, spec.samples, n_true)

    def one(
        module: Autoencoder, params: PyTree, hyper: DictionaryHyper
    ) -> dict[str, Float[Array, ""]]:
        variables = {"params": params}
        h = hidden_vectors(draws, hyper)
        passed: Any = module.apply(variables, h, hyper.strength)
        coded, back = passed
        single: Any = module.apply(variables, hyper.directions, hyper.strength)
        learned = jnp.asarray(module.apply(variables, method="directions"))
        norm = jnp.sum(hyper.directions**2, axis=1)
        return {
            "cosine": mean_max_cosine(hyper.directions, learned),
            "least_cosine": jnp.min(jnp.max(cross_cosines(hyper.directions, learned), axis=1)),
            "error": jnp.sum((h - back) ** 2) / jnp.sum(h**2),
            "norm_ratio": jnp.mean(jnp.sum(single[1] * hyper.directions, axis=1) / norm),
            "dead": jnp.mean(jnp.max(coded.codes, axis=0) <= 0),
            "active": jnp.mean(jnp.sum(coded.codes > 0, axis=1)),
            "hedging": hedging(hyper.directions, learned),
        }

    def every(
        member: tuple[tuple[PyTree, ...], tuple[DictionaryHyper, ...]],
    ) -> tuple[dict[str, Array], ...]:
        modules = (problem.autoencoder for problem in methods)
        return tuple(one(*each) for each in zip(modules, *member, strict=True))

    return jax.jit(partial(jax.lax.map, every))((params, hyper))
