"""Identities of circuits on random models, and what scores are before any training.

The framework paper takes a model apart: logits into paths, scores of a head into terms by their
sources, circuits into low-rank spectra. Each decomposition is an identity, whose greatest error is
measured. Composition scores of untrained models are the nulls of trained ones.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, DTypeLike

from circuitax.circuits.weights.composition import KINDS, composition_scores
from circuitax.config.ranges import Positive
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import Run
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.members import one_by_one
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init
from experiments.paths.circuit_identities.identities import of_paths, of_scores, of_spectra

CHECKS = ("paths", "orders", "direct", "runs", "kronecker", "ablation")
SPECTRAL = ("eigenvalues", "trace", "norm", "cycled")


@dataclass(frozen=True)
class Spec:
    """Small models for identities, one of published width for the nulls.

    Attributes:
        model: Sizes; layers, norm and positions are set by each arm.
        max_depth: Depths 0 to this many layers, from 2 on.
        score_heads: Heads in each layer of the model whose scores are taken apart.
        random: Freshly initialised model for the nulls; two layers.
        seeds: Models of each kind, each with its own weights and text.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    max_depth: Annotated[int, "[2, 5]"] = 4
    score_heads: Positive = 12
    random: TransformerSpec = field(default_factory=TransformerSpec)
    seeds: Positive = 8

    def __post_init__(self) -> None:
        if self.model.biases or self.model.d_mlp is not None or not self.model.n_ctx:
            raise ValueError(f"model={self.model} must have n_ctx, no biases and no d_mlp")
        if self.random.n_layers != 2:
            raise ValueError(f"random.n_layers={self.random.n_layers} must be 2")


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Errors of every identity on random models, and scores of random models of real width.

    Models are drawn and taken apart into paths, score terms and spectra; what these add up to is
    compared with the models' own logits, scores and dense circuits.
    """
    double = jnp.result_type(float)
    named = dict(arms(spec))
    errors, spectral = {}, []
    for name, model in lab.track(named.items(), "identities"):
        errors[name] = _over_seeds(of_paths, model, derive(key, name), spec.seeds, double)
    two = named["2 layers"]
    single = _over_seeds(of_paths, two, derive(key, "float32"), spec.seeds, jnp.float32)
    deepest = named[f"{spec.max_depth} layers"]
    for seed in member_keys(derive(key, "spectra"), spec.seeds):
        found = of_spectra(init(seed, deepest, double))
        spectral.append([found[check] for check in SPECTRAL])
    scores = {}
    for positions in (Positions.none, Positions.shortformer):
        model = replace(
            spec.model,
            n_layers=2,
            n_heads=spec.score_heads,
            d_model=spec.score_heads * spec.model.head_width,
            d_head=None,
            positions=positions,
        )
        scores[positions.value] = _over_seeds(
            of_scores, model, derive(key, f"scores, {positions.value}"), spec.seeds, double
        )
    return xr.Dataset(
        {
            "path_error": (
                ("arm", "check", "member"),
                [[errors[arm][check] for check in CHECKS] for arm in named],
            ),
            "path_error_float32": ("member", single["paths"]),
            "spectral_error": (("member", "check_spectral"), np.array(spectral)),
            "score_error": (("positions", "member"), [s["scores"] for s in scores.values()]),
            "random_composition": (
                ("member", "kind", "writer", "reader"),
                _random_models(spec, derive(key, "random")),
            ),
            "random_d_model": spec.random.d_model,
            "float64": double == jnp.float64,
        },
        coords={
            "arm": list(named),
            "check": list(CHECKS),
            "check_spectral": list(SPECTRAL),
            "positions": list(scores),
            "kind": list(KINDS),
        },
    )


def arms(spec: Spec) -> Iterator[tuple[str, TransformerSpec]]:
    """Every depth without norm, and the deepest with layer norm, whose scales are frozen."""
    for depth in range(spec.max_depth + 1):
        yield f"{depth} layers", replace(spec.model, n_layers=depth, norm=Norm.none)
    name = f"{spec.max_depth} layers, norm"
    yield name, replace(spec.model, n_layers=spec.max_depth, norm=Norm.layernorm)


def _over_seeds(
    measure: Callable[[Run], dict[str, Array]],
    model: TransformerSpec,
    key: jax.Array,
    seeds: int,
    dtype: DTypeLike,
) -> dict[str, np.ndarray]:
    n_ctx = model.n_ctx or 0

    def one(key: jax.Array) -> dict[str, Array]:
        drawn = init(derive(key, "weights"), model, dtype)
        tokens = jax.random.randint(derive(key, "text"), (n_ctx,), 0, model.d_vocab)
        return measure(run_model(drawn, tokens, outputs=True))

    found = jax.jit(jax.vmap(one))(member_keys(key, seeds))
    return {name: np.asarray(values) for name, values in found.items()}


def _random_models(spec: Spec, key: jax.Array) -> np.ndarray:
    """Composition of all pairs of heads; float32, one model at a time."""

    @jax.jit
    def one(key: jax.Array) -> dict[str, Array]:
        model = init(key, spec.random, jnp.float32)
        return {"composition": composition_scores(model)[:, 0, :, 1, :]}

    return one_by_one(one, member_keys(key, spec.seeds))["composition"]
