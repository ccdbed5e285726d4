"""How many nearly orthogonal directions fit: random, greedy, optimised, learned, and the bounds."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.kernel.keys import derive, member_keys
from circuitax.lab.lab import Lab
from circuitax.models.toy import ToySpec
from circuitax.projection.capacity import greedy_counts, optimised_counts, random_counts
from circuitax.projection.coherence import Coherence, coherence, unit_rows
from circuitax.projection.decoding import crosstalk_failure, guaranteed_sparsity, recovery
from circuitax.projection.laws import random_capacity
from circuitax.projection.packing_bounds import (
    capacity_bound,
    coherence_bound,
    greedy_exponent,
    kabatiansky_levenshtein,
    random_exponent,
    welch_bound,
)
from circuitax.projection.packings import optimised_packing
from circuitax.projection.tails import check_epsilon
from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.record import Record
from circuitax.training import ensemble
from circuitax.training.ensemble import Plan
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem
from experiments.jl_capacity.claims import CLAIMS as CLAIMS

BUDGET_SECONDS = 25
PAPER_SECONDS = 4_000  # by its work against quick scale; not run
KINDS = ("random", "learned", "optimised")


@dataclass(frozen=True)
class Spec:
    """Sizes of the sweep over dimensions, of the models, and of decoding.

    Attributes:
        epsilon: Largest overlap allowed, in (0, 1).
        random_dims: Dimensions for random directions, at least five, increasing.
        greedy_dims: For greedy packings, at least two, increasing.
        optimised_dims: For optimised packings, at least five, increasing, each with a finite bound.
        n_trials: Random sequences a dimension, at least 10.
        n_seeds: Packings and models of each size, at least 2.
        n_candidates: Directions that greedy packing tries, at least 100.
        n_steps: Steps of the packing optimiser, at least 10.
        widths: Hidden neurons m of the models, each with ``4 m`` features, within the largest of
            ``optimised_dims``.
        density: Of the models' features, in (0, 1].
        batch_size: Of the models, at least 1.
        optim: How they are trained.
        decode_dim: m of the decoding test, at least 2.
        decode_features: N of it, at least 2.
        max_active: Largest k, in [1, decode_features].
        n_decode: Trials a k, at least 10.
    """

    epsilon: float = 0.3
    random_dims: tuple[int, ...] = (50, 80, 110, 140, 170, 200)
    greedy_dims: tuple[int, ...] = (8, 12, 14, 20, 32, 48)
    optimised_dims: tuple[int, ...] = (6, 7, 8, 10, 12, 14)
    n_trials: int = 40
    n_seeds: int = 4
    n_candidates: int = 10_000
    n_steps: int = 500
    widths: tuple[int, ...] = (4, 8, 12)
    density: float = 0.05
    batch_size: int = 256
    optim: OptimSpec = field(default_factory=lambda: OptimSpec(learning_rate=5e-3, steps=1500))
    decode_dim: int = 128
    decode_features: int = 512
    max_active: int = 12
    n_decode: int = 500

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        for name, least in (("random_dims", 5), ("greedy_dims", 2), ("optimised_dims", 5)):
            dims = getattr(self, name)
            if len(dims) < least or sorted(set(dims)) != list(dims) or dims[0] < 2:
                raise ValueError(f"{name}={dims} must be {least} increasing values of at least 2")
        if not np.isfinite(capacity_bound(self.optimised_dims[-1], self.epsilon)):
            raise ValueError(
                f"optimised_dims={self.optimised_dims} must have a finite bound at "
                f"epsilon={self.epsilon}: d below 3/epsilon² - 2"
            )
        for name, least in (
            ("n_trials", 10), ("n_seeds", 2), ("n_candidates", 100), ("n_steps", 10),
            ("batch_size", 1), ("decode_dim", 2), ("decode_features", 2), ("n_decode", 10),
        ):  # fmt: skip
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {least}")
        if (
            not self.widths
            or not 2 <= min(self.widths) <= max(self.widths) <= self.optimised_dims[-1]
        ):
            raise ValueError(f"widths={self.widths} must be in [2, {self.optimised_dims[-1]}]")
        if not 0 < self.density <= 1:
            raise ValueError(f"density={self.density} must be in (0, 1]")
        if not 1 <= self.max_active <= self.decode_features:
            raise ValueError(f"max_active={self.max_active} must be in [1, {self.decode_features}]")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Capacity against dimension; coherence of learned features; decoding of sparse features."""
    eps = spec.epsilon
    random = lab.stage("random", random_counts, derive(key, "random"), spec.random_dims, eps,
                       spec.n_trials)  # fmt: skip
    greedy = lab.stage("greedy", greedy_counts, derive(key, "greedy"), spec.greedy_dims, eps,
                       spec.n_seeds, spec.n_candidates)  # fmt: skip
    optimised = lab.stage("optimised", optimised_counts, derive(key, "optimised"),
                          spec.optimised_dims, eps, spec.n_seeds, spec.n_steps)  # fmt: skip
    models = _models(spec, derive(key, "models"), lab)
    decoded = lab.stage("decode", _decode, spec, derive(key, "decode"))
    k = np.arange(1, spec.max_active + 1)
    bound = [capacity_bound(d, eps) for d in spec.optimised_dims]
    sizes = [(4 * m, m) for m in spec.widths]
    data = xr.Dataset(
        {
            "random": (("random_dim", "trial"), random),
            "random_law": ("random_dim", random_capacity(np.array(spec.random_dims), eps)),
            "greedy": (("greedy_dim", "seed"), greedy),
            "optimised": (("optimised_dim", "seed"), optimised),
            "bound": ("optimised_dim", bound),
            "coherence": (("kind", "measure", "width", "seed"), models.coherence),
            "n_represented": (("width", "seed"), models.n_represented),
            "coherence_bound": ("width", [float(coherence_bound(n, m)) for n, m in sizes]),
            "welch": ("width", [float(welch_bound(n, m)) for n, m in sizes]),
            "decoded": ("n_active", decoded["exact"] / spec.n_decode),
            "decoding_law": ("n_active", [
                1 - crosstalk_failure(spec.decode_features, spec.decode_dim, int(i)) for i in k
            ]),
        },
        coords={"random_dim": list(spec.random_dims), "greedy_dim": list(spec.greedy_dims),
                "optimised_dim": list(spec.optimised_dims), "width": list(spec.widths),
                "kind": list(KINDS), "measure": ["absolute", "signed", "mean_square"],
                "n_active": k},
        attrs={"epsilon": eps, "random_exponent": float(random_exponent(eps)),
               "greedy_exponent": float(greedy_exponent(eps)),
               "kabatiansky_levenshtein": float(kabatiansky_levenshtein(eps)),
               "guaranteed": guaranteed_sparsity(float(decoded["coherence"])),
               "decode_dim": spec.decode_dim, "decode_features": spec.decode_features},
    )  # fmt: skip
    return Record(data=data, measured=_measured(spec, data))


def _measured(spec: Spec, data: xr.Dataset) -> dict[str, Estimate]:
    common = sorted({*spec.greedy_dims} & {*spec.optimised_dims})
    best = {name: data[name].max("seed") for name in ("greedy", "optimised")}
    gain = [float(best["optimised"].sel(optimised_dim=d) / best["greedy"].sel(greedy_dim=d))
            for d in common]  # fmt: skip
    signed = data.coherence.sel(measure="signed")
    start, learned, goal = (signed.sel(kind=kind) for kind in KINDS)
    # Distances are measured between means over seeds of random sets and the best optimised one.
    start, goal = start.mean("seed"), goal.min("seed")
    n, m = data.n_represented, data.width
    welch = (n - m) / (m * (n - 1))
    frame = data.coherence.sel(kind="learned", measure="mean_square") / welch.where(n > m)
    failures = np.abs(data.decoded - data.decoding_law)
    half = data.n_active.where(data.decoded >= 0.5).max()
    return {
        "jl-random-exponent": _slope(data.random_dim, data.random),
        "jl-random-capacity": mean_estimate(data.random.median("trial") / data.random_law)
        ._replace(n=data.random.size),
        "jl-greedy-exponent": _slope(data.greedy_dim, data.greedy),
        "jl-optimised-gain": exact(min(gain), len(gain)),
        "jl-packing-bounds": exact((best["optimised"] / data.bound).max()),
        "jl-learned-signed": mean_estimate((start - learned) / (start - goal)),
        "jl-learned-welch": mean_estimate(frame.values[np.isfinite(frame.values)]),
        "jl-decoding": exact(failures.max(), spec.n_decode),
        "jl-decoding-reach": exact(half / max(data.attrs["guaranteed"], 1), spec.n_decode),
        "jl-optimised-exponent": _slope(data.optimised_dim, data.optimised),
    }  # fmt: skip


def _slope(dims: xr.DataArray, counts: xr.DataArray) -> Estimate:
    """Slope of ln N against d by least squares, with Student's interval over the residuals."""
    x = np.repeat(dims.values, counts.shape[1]).astype(float)
    y = np.log(counts.values.ravel())
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    residual = y - y.mean() - slope * centred
    error = np.sqrt(residual @ residual / (len(x) - 2) / (centred @ centred))
    return Estimate(slope, slope - 1.96 * error, slope + 1.96 * error, len(x), "least squares 95%")


class Models(NamedTuple):
    """Coherence of random, learned and optimised sets, and how many features are represented."""

    coherence: np.ndarray  # [kind, measure, width, seed]
    n_represented: np.ndarray  # [width, seed]


def _models(spec: Spec, key: jax.Array, lab: Lab) -> Models:
    found, represented = [], []
    for m in spec.widths:
        n, at = 4 * m, derive(key, f"width {m}")
        W = _train(spec, m, derive(at, "train"), lab)
        rows = jnp.swapaxes(W, 1, 2)
        on = jnp.linalg.norm(rows, axis=2) >= 0.5
        # Features that were given up have no direction: a zero row overlaps nothing.
        rows = jnp.where(on[:, :, None], rows, 0)
        keys = member_keys(derive(at, "sets"), spec.n_seeds)
        sets = lab.stage(f"sets-{m}", _sets, spec, m, keys)
        each = [*(jax.vmap(coherence)(x) for x in (sets["random"], rows)), sets["optimised"]]
        count = np.asarray(on.sum(1))
        table = np.array([[np.asarray(value) for value in one] for one in each])
        # Mean squares are over the pairs of features that have a direction.
        table[1, 2] *= n * (n - 1) / np.maximum(count * (count - 1), 1)
        found.append(table)
        represented.append(count)
    return Models(np.stack(found, 2), np.stack(represented))


def _sets(spec: Spec, m: int, keys: jax.Array) -> dict[str, Any]:
    """Random directions, and the coherence of those optimised for lines and for points."""
    n = 4 * m
    largest = max(spec.widths)
    lines, points = (
        _packed(keys, n, m, dim=largest, n_steps=2 * spec.n_steps, signed=signed)
        for signed in (False, True)
    )
    random = jax.vmap(lambda k: unit_rows(jax.random.normal(k, (n, m))))(keys)
    # Rows past n are zero and overlap nothing, but they make pairs.
    capacity = 4 * largest
    mean_square = lines.mean_square * (capacity * (capacity - 1)) / (n * (n - 1))
    return {"random": random, "optimised": (lines.largest, points.largest_signed, mean_square)}


@partial(jax.jit, static_argnames=("dim", "n_steps", "signed"))
def _packed(
    keys: jax.Array,
    n_vectors: jax.Array,
    n_dims: jax.Array,
    *,
    dim: int,
    n_steps: int,
    signed: bool,
) -> Coherence:
    # One shape for all sizes, so that it compiles once.
    def one(key: jax.Array) -> Coherence:
        return coherence(
            optimised_packing(
                key, n_vectors, dim=dim, capacity=4 * dim, n_steps=n_steps, signed=signed,
                n_dims=n_dims,
            ).vectors
        )  # fmt: skip

    return jax.vmap(one)(keys)


def _train(spec: Spec, m: int, key: jax.Array, lab: Lab) -> jax.Array:
    """W [seed, m, 4 m] of tied ReLU models with independent initialisation and data."""
    n = 4 * m
    chunk = min(100, spec.optim.steps)
    plan = Plan(ToyProblem(ToySpec(n, m), batch_size=spec.batch_size), spec.optim, chunk=chunk)
    hyper = ToyHyper(jnp.full((spec.n_seeds, n), spec.density), jnp.ones((spec.n_seeds, n)))
    members = ensemble.new_members(key, spec.optim.learning_rate, hyper)
    state, _ = lab.loop(f"train-{m}", ensemble.init(plan, members), ensemble.advance(plan, members),
                        max(1, spec.optim.steps // chunk), show="loss")  # fmt: skip
    return state.params.W


def _decode(spec: Spec, key: jax.Array) -> dict[str, Any]:
    """Trials decoded without an error for every k, for random directions."""
    v = unit_rows(jax.random.normal(derive(key, "v"), (spec.decode_features, spec.decode_dim)))
    k = jnp.arange(1, spec.max_active + 1)
    found = jax.lax.map(
        lambda args: recovery(args[0], v, n_active=args[1], n_trials=spec.n_decode),
        (member_keys(derive(key, "trials"), spec.max_active), k),
    )
    return {"exact": found.exact, "coherence": coherence(v).largest}
