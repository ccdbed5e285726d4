"""Identities and nulls of circuits: paths, scores, spectra and ablations on random models."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, DTypeLike

from circuitax.circuits.composition import KINDS, composition_scores
from circuitax.circuits.heads import token_ov
from circuitax.circuits.spectra import copying_score
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import Run
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init_model
from circuitax.records.record import Record
from experiments.circuit_identities.claims import CLAIMS as CLAIMS
from experiments.circuit_identities.claims import estimates
from experiments.circuit_identities.readings import (
    of_paths,
    of_scores,
    of_single_precision,
    of_spectra,
)

BUDGET_SECONDS = 30
PAPER_SECONDS = 60
CHECKS = ("paths", "orders", "direct", "runs", "kronecker", "ablation")
SPECTRAL = ("eigenvalues", "trace", "norm", "cycled")


@dataclass(frozen=True)
class Spec:
    """Small models for identities, one of published width for the nulls.

    Attributes:
        model: Sizes; layers, norm and positions are set by each arm.
        max_depth: Depths 0 to this many layers, from 2 to 5.
        score_heads: Heads a layer of the model whose scores are taken apart.
        random: Freshly initialised model for the nulls; two layers.
        seeds: Models of each kind, each with its own weights and text.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    max_depth: int = 4
    score_heads: int = 12
    random: TransformerSpec = field(default_factory=TransformerSpec)
    seeds: int = 8

    def __post_init__(self) -> None:
        if not 2 <= self.max_depth <= 5:
            raise ValueError(f"max_depth={self.max_depth} must be from 2 to 5")
        for name in ("seeds", "score_heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.model.biases or self.model.d_mlp is not None:
            raise ValueError("model.biases and model.d_mlp must be absent: paths are compared bare")
        if self.model.n_ctx is None:
            raise ValueError("model.n_ctx=None must be a number: it is the length of the texts")
        if self.random.n_layers != 2:
            raise ValueError(f"random.n_layers={self.random.n_layers} must be 2")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Draw models, take them apart, put them together again, and look at what is left."""
    double = jnp.result_type(float)
    named = dict(arms(spec))
    errors, spectral = {}, []
    for name, model in lab.track(named.items(), "identities"):
        errors[name] = _over_seeds(of_paths, model, derive(key, name), spec.seeds, double)
    two = named["2 layers"]
    single = _over_seeds(of_single_precision, two, derive(key, "float32"), spec.seeds, jnp.float32)
    deepest = named[f"{spec.max_depth} layers"]
    for seed in member_keys(derive(key, "spectra"), spec.seeds):
        found = of_spectra(init_model(seed, deepest, double))
        spectral.append([found[check] for check in SPECTRAL])
    scores = {}
    for positions in (Positions.none, Positions.shortformer):
        model = replace(spec.model, n_layers=2, n_heads=spec.score_heads, d_model=spec.score_heads
                        * spec.model.head_width, d_head=None, positions=positions)  # fmt: skip
        scores[positions.value] = _over_seeds(
            of_scores, model, derive(key, f"scores, {positions.value}"), spec.seeds, double
        )
    random = _random_models(spec, derive(key, "random"))
    data = xr.Dataset(
        {
            "path_error": (("arm", "check", "member"), [_stacked(errors[arm]) for arm in named]),
            "path_error_float32": ("member", single["paths"]),
            "spectral_error": (("member", "check_spectral"), np.array(spectral)),
            "score_error": (("positions", "member"), [s["scores"] for s in scores.values()]),
            "score_count": (("positions", "member"), [s["count"] for s in scores.values()]),
            "random_composition": (("member", "kind", "writer", "reader"), random["composition"]),
            "random_copying": (("member", "head"), random["copying"]),
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
    measured, unmet = estimates(data, spec.score_heads, spec.random.head_width)
    return Record(data=data, measured=measured, unmet=unmet)


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
        drawn = init_model(derive(key, "weights"), model, dtype)
        tokens = jax.random.randint(derive(key, "text"), (n_ctx,), 0, model.d_vocab)
        return measure(run_model(drawn, tokens, outputs=True))

    found = jax.jit(jax.vmap(one))(member_keys(key, seeds))
    return {name: np.asarray(values) for name, values in found.items()}


def _random_models(spec: Spec, key: jax.Array) -> dict[str, np.ndarray]:
    """Composition of all pairs and copying of all heads; float32, one model at a time."""

    @jax.jit
    def one(key: jax.Array) -> dict[str, Array]:
        model = init_model(key, spec.random, jnp.float32)
        found = composition_scores(model)[:, 0, :, 1, :]
        copying = copying_score(token_ov(model))
        return {"composition": found, "copying": copying.ravel()}

    rows = [one(seed) for seed in member_keys(key, spec.seeds)]
    return {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}


def _stacked(errors: dict[str, np.ndarray]) -> np.ndarray:
    return np.stack([errors[check] for check in CHECKS])
