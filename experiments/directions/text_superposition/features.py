"""Features of a model: directions that sparse autoencoders find in its stream.

Nobody knows the true features of a model, so several autoencoders are trained on the same vectors,
each from its own start and with its own batches, and what they agree on is measured too.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PyTree

from circuitax.data.sparse import VectorSource
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kit.checks import require_at_least, require_divides
from circuitax.kit.measured_training import Trained, measured_training
from circuitax.kit.memory import require_arrays
from circuitax.lab.lab import Lab
from circuitax.models.autoencoder import Autoencoder, Sparsity
from circuitax.projection.packings import welch_bound
from circuitax.superposition.dictionaries import mean_max_cosine
from circuitax.training import ensemble
from circuitax.training.ensemble import Mapping, Plan
from circuitax.training.optim import OptimSpec
from experiments.directions.text_superposition.levels import LEVELS, MULTIPLES, TAIL
from experiments.directions.text_superposition.live_directions import (
    centred_live,
    live_dimensionality,
    live_overlaps,
)
from experiments.directions.text_superposition.stream_vectors import (
    random_windows,
    stream_vectors,
    text_windows,
)
from experiments.directions.text_superposition.vector_dictionary import VectorDictionary

# Cosines between dictionaries that are in memory at once.
_COSINES = 1 << 27


@dataclass(frozen=True)
class FeatureSpec:
    """TopK autoencoders on the stream halfway through a model.

    Attributes:
        vectors: Of the stream on held-out text, fewer where there is less text. At least 64; a
            quarter is kept to measure on.
        expansion: Latents of an autoencoder, as a multiple of the dimensions; at least 1.
        active: Latents that are on at a time, k; at least 1.
        seeds: Autoencoders, each with its own start and batches; at least 2.
        batch: Vectors a step, at least 1.
        optim: Optimizer.
        chunk: Steps between two returns to Python, a divisor of ``optim.steps``.
    """

    vectors: int = 131_072
    expansion: int = 4
    active: int = 8
    seeds: int = 8
    batch: int = 256
    optim: OptimSpec = field(default_factory=OptimSpec)
    chunk: int = 250

    def __post_init__(self) -> None:
        require_at_least(self, 64, "vectors")
        require_at_least(self, 1, "expansion", "active", "batch")
        require_at_least(self, 2, "seeds")
        require_divides(self, "chunk", "optim.steps")
        require_arrays(self, "16 batch expansion", "256 seeds expansion")  # at least 16 dimensions


def features(
    lab: Lab, spec: FeatureSpec, name: str, model: Model, key: Key[Array, ""], random_text: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train autoencoders on the stream halfway through a model, and measure their directions.

    Args:
        lab: Of the experiment.
        spec: How they are trained.
        name: Of the model, "ours" or "smollm2".
        model: Of that name.
        key: Of this part.
        random_text: Whether texts are random tokens, for a model that reads no text.

    Returns:
        Arrays with an axis ``seed``, by name; and notes.
    """
    layer, d_model = model.n_layers // 2, model.d_model
    if random_text:
        windows = random_windows(model, spec.vectors, derive(key, "windows"))
    else:
        windows = text_windows(name, model, spec.vectors)
    seen, held, left_out = stream_vectors(lab, f"streams-{name}", model, windows, layer)
    module = Autoencoder(Sparsity.topk, spec.expansion * d_model, d_model)
    trained = _train(lab, f"features-{name}", spec, module, seen, derive(key, "train"))
    k = jnp.asarray(spec.active, float)
    score = jax.jit(partial(jax.lax.map, partial(_scores, module, jnp.asarray(held), k)))
    scores = {what: np.asarray(x) for what, x in score(trained.models).items()}
    live = jnp.asarray(scores.pop("live"))
    rows = jax.vmap(partial(_directions, module))(trained.models)
    null = jax.random.normal(derive(key, "random"), rows.shape, float)
    found = _measured(rows, live) | {f"null_{k}": x for k, x in _measured(null, live).items()}
    n_live = np.asarray(live.sum(axis=1))
    arrays: dict[str, Any] = {
        **{score: (("seed",), x) for score, x in scores.items()},
        **{what: (_axes(what), np.asarray(x)) for what, x in found.items()},
        "live": (("seed",), n_live),
        "welch": (("seed",), welch_bound(n_live, d_model)),
        "components_error": ((), _components_error(seen, held, spec.active)),
        "training_loss": (("chunk", "seed"), trained.training_loss),
    }
    masked = {
        array: (axes, _alive(np.asarray(x, float), axes, trained.alive))
        for array, (axes, x) in arrays.items()
    }
    notes = {
        "layer": layer,
        "dim": d_model,
        "width": module.width,
        "active": spec.active,
        "seeds": spec.seeds,
        "trained_on": len(seen),
        "measured_on": len(held),
        "left_out": left_out,
        "divergence": trained.divergence,
        "vectors": "stream entering the layer, mean taken off, mean square norm 1",
        "dead": "a latent that is on for no vector that training did not see",
    }
    return masked, notes


def _train(
    lab: Lab,
    name: str,
    spec: FeatureSpec,
    module: Autoencoder,
    seen: np.ndarray,
    key: Key[Array, ""],
) -> Trained:
    problem = VectorDictionary(module, VectorSource(spec.batch, jnp.asarray(seen)))
    plan = Plan(problem, spec.optim, spec.chunk, Mapping.vmap, mesh=None)
    strengths = jnp.full(spec.seeds, float(spec.active))
    members = ensemble.new_members(key, spec.optim.learning_rate, strengths)
    state, advance = ensemble.init(plan, members), ensemble.advance(plan, members)
    return measured_training(lab, name, state, advance, steps=spec.optim.steps, every=spec.chunk)


def _directions(module: Autoencoder, params: PyTree) -> Float[Array, "width d_in"]:
    return jnp.asarray(module.apply({"params": params}, method="directions"))


def _scores(
    module: Autoencoder, held: Float[Array, "n d_in"], k: Float[Array, ""], params: PyTree
) -> dict[str, Array]:
    """Scores of one autoencoder on held-out vectors."""
    passed: Any = module.apply({"params": params}, held, k)
    coded, back = passed
    on = jnp.mean(coded.codes > 0, axis=0)
    return {
        "error": jnp.sum((held - back) ** 2) / jnp.sum(held**2),
        "live": on > 0,
        "dead": jnp.mean(on == 0),
        "on": jnp.sum(on),
    }


@jax.jit
def _measured(
    rows: Float[Array, "seed n d"], live: Bool[Array, "seed n"]
) -> dict[str, Float[Array, "..."]]:
    """Measurements of each set, raw and centred, behind the axis of seeds, and their agreement."""
    thresholds = MULTIPLES / np.sqrt(rows.shape[2])
    tail = int(np.argmin(np.abs(MULTIPLES - TAIL)))

    def one(rows: Float[Array, "n d"], live: Bool[Array, " n"]) -> dict[str, Float[Array, "..."]]:
        dims = live_dimensionality(rows, live)
        overlaps = live_overlaps(rows, live, jnp.asarray(thresholds))
        return {
            **overlaps._asdict(),
            "tail": overlaps.above[tail],
            "dimensionality": jnp.nanquantile(dims, jnp.asarray(LEVELS)),
            "dimensionality_sum": jnp.nansum(dims),
        }

    sets = (rows, jax.vmap(centred_live)(rows, live))
    each = [jax.vmap(one)(x, live) for x in sets]
    both = {name: jnp.stack([x[name] for x in each], axis=1) for name in each[0]}
    return both | {"agreement": _agreement(rows, live)}


def _agreement(
    rows: Float[Array, "seed n d"], live: Bool[Array, "seed n"]
) -> Float[Array, " seed"]:
    """Agreement of each set's directions with their nearest in another set: mean over sets."""
    kept = jnp.where(live[:, :, None], rows, 0)
    n, width, _ = rows.shape
    to_all = jax.vmap(mean_max_cosine, (None, 0))
    at_once = min(n, max(1, _COSINES // (n * width**2)))
    near = jax.lax.map(lambda one: to_all(one, kept), kept, batch_size=at_once)
    near = near * live.shape[1] / jnp.maximum(jnp.sum(live, axis=1), 1)[:, None]
    return jnp.sum(jnp.where(jnp.eye(n, dtype=bool), 0, near), axis=1) / (n - 1)


def _components_error(seen: np.ndarray, held: np.ndarray, k: int) -> float:
    """Reconstruction error of as many principal components on held-out vectors."""
    _, basis = np.linalg.eigh(seen.T.astype(float) @ seen)
    kept = held @ basis[:, -k:]
    return float(1 - (kept**2).sum() / (held.astype(float) ** 2).sum())


def _axes(name: str) -> tuple[str, ...]:
    last = {"above": ("multiple",), "dimensionality": ("level",)}
    bare = name.removeprefix("null_")
    return ("seed",) if bare == "agreement" else ("seed", "centred", *last.get(bare, ()))


def _alive(values: np.ndarray, axes: tuple[str, ...], alive: np.ndarray) -> np.ndarray:
    """Not a number for seeds that diverged."""
    if "seed" not in axes:
        return values
    shape = [-1 if axis == "seed" else 1 for axis in axes]
    return np.where(alive.reshape(shape), values, np.nan)
