"""Features of our text model: directions that sparse autoencoders find in its stream.

Nobody knows the true features of a model, so several autoencoders are trained on the same vectors,
each from its own start and with its own batches, and what they agree on is measured too.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from circuitax.data.text import TextSpec, open_text
from circuitax.data.vectors import VectorSource
from circuitax.data.windows import spaced_windows
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.tokens import behind_start
from circuitax.kit.checks import require_at_least, require_divides
from circuitax.kit.measured_training import Trained, measured_training
from circuitax.lab.lab import Lab
from circuitax.models.autoencoder import Autoencoder, Sparsity
from circuitax.projection.packing_bounds import welch_bound
from circuitax.superposition.dictionary import mean_max_cosine
from circuitax.superposition.live_directions import (
    centred_live,
    live_dimensionality,
    live_overlaps,
)
from circuitax.training import ensemble
from circuitax.training.ensemble import Mapping, Plan
from circuitax.training.optim import OptimSpec
from circuitax.training.vector_dictionary import VectorDictionary
from experiments.text_superposition.levels import LEVELS, MULTIPLES, TAIL
from experiments.text_superposition.weights import own_tokenizer

_RANDOM_LENGTH = 16
# One window in this many is kept from training, to measure on.
_APART = 4
_AT_ONCE = 64


@dataclass(frozen=True)
class FeatureSpec:
    """TopK autoencoders on the stream of our text model.

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


def own_text(d_vocab: int = 512) -> TextSpec:
    """The text of our text models, in tokens of their accepted tokenizer.

    Args:
        d_vocab: Of that tokenizer.
    """
    return TextSpec(d_vocab, tokenizer=str(own_tokenizer()))


def features(
    lab: Lab, spec: FeatureSpec, model: Model, key: Key[Array, ""], random_text: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train autoencoders on the stream halfway through a model, and measure their directions.

    Args:
        lab: Of the experiment.
        spec: How they are trained.
        model: Our text model.
        key: Of this part.
        random_text: Whether texts are random tokens, for a model that reads no text.

    Returns:
        Arrays with an axis ``seed``, by name; and notes.
    """
    layer, d_model = model.n_layers // 2, model.W_E.shape[1]
    windows = _windows(spec, model, derive(key, "windows"), random_text)
    streams = lab.stage("streams", _streams, model, jnp.asarray(windows), layer)
    apart = np.arange(len(windows)) % _APART == 0
    seen, held = (streams[mask].reshape(-1, d_model) for mask in (~apart, apart))
    mean = seen.mean(axis=0, dtype=float)
    size = np.sqrt(((seen - mean) ** 2).sum(axis=1).mean())
    seen, held = (((x - mean) / size).astype(np.float32) for x in (seen, held))
    module = Autoencoder(Sparsity.topk, spec.expansion * d_model, d_model)
    trained = _train(lab, spec, module, seen, derive(key, "train"))
    k = jnp.asarray(spec.active, float)
    score = jax.jit(partial(jax.lax.map, partial(_scores, module, jnp.asarray(held), k)))
    scores = {name: np.asarray(x) for name, x in score(trained.models).items()}
    live = jnp.asarray(scores.pop("live"))
    rows = jax.vmap(partial(_directions, module))(trained.models)
    null = jax.random.normal(derive(key, "random"), rows.shape, float)
    found = _measured(rows, live) | {f"null_{k}": x for k, x in _measured(null, live).items()}
    n_live = np.asarray(live.sum(axis=1))
    arrays: dict[str, Any] = {
        **{name: (("seed",), x) for name, x in scores.items()},
        **{name: (_axes(name), np.asarray(x)) for name, x in found.items()},
        "live": (("seed",), n_live),
        "welch": (("seed",), welch_bound(n_live, d_model)),
        "components_error": ((), _components_error(seen, held, spec.active)),
        "training_loss": (("chunk", "seed"), trained.training_loss),
    }
    masked = {
        f"feature_{name}": (axes, _alive(np.asarray(x, float), axes, trained.alive))
        for name, (axes, x) in arrays.items()
    }
    notes = {
        "layer": layer,
        "dim": d_model,
        "width": module.width,
        "active": spec.active,
        "seeds": spec.seeds,
        "trained_on": len(seen),
        "measured_on": len(held),
        "divergence": trained.divergence,
        "vectors": "stream entering the layer, mean taken off, mean square norm 1",
        "dead": "a latent that is on for no vector that training did not see",
    }
    return masked, notes


def _windows(
    spec: FeatureSpec, model: Model, key: Key[Array, ""], random_text: bool
) -> Int[np.ndarray, "window n_ctx"]:
    """Held-out text of our models, in windows as long as the model reads."""
    if random_text:
        shape = (max(spec.vectors // _RANDOM_LENGTH, _APART), _RANDOM_LENGTH)
        return np.asarray(jax.random.randint(key, shape, 0, model.d_vocab))
    text = open_text(own_text(model.d_vocab))
    held_out, length = text.tokens.validation, model.n_ctx or _RANDOM_LENGTH
    n = max(min(spec.vectors, len(held_out)) // length, 1)
    windows = spaced_windows(held_out, n, length)
    return np.asarray(behind_start(jnp.asarray(windows), model.spec.start_token))


@partial(jax.jit, static_argnums=2)
def _streams(
    model: Model, windows: Int[Array, "window n_ctx"], layer: int
) -> Float[Array, "window n_ctx d_model"]:
    def one(text: Int[Array, " n_ctx"]) -> Float[Array, "n_ctx d_model"]:
        return forward(model, text)[1].streams[layer]

    return jax.lax.map(one, windows, batch_size=_AT_ONCE)


def _train(
    lab: Lab, spec: FeatureSpec, module: Autoencoder, seen: np.ndarray, key: Key[Array, ""]
) -> Trained:
    problem = VectorDictionary(module, VectorSource(spec.batch, jnp.asarray(seen)))
    plan = Plan(problem, spec.optim, spec.chunk, Mapping.vmap)
    strengths = jnp.full(spec.seeds, float(spec.active))
    members = ensemble.new_members(key, spec.optim.learning_rate, strengths)
    state, advance = ensemble.init(plan, members), ensemble.advance(plan, members)
    return measured_training(
        lab, "features", state, advance, steps=spec.optim.steps, every=spec.chunk
    )


def _directions(module: Autoencoder, params: PyTree) -> Float[Array, "width d_in"]:
    return jnp.asarray(module.apply({"params": params}, method="directions"))


def _scores(
    module: Autoencoder, held: Float[Array, "n d_in"], k: Float[Array, ""], params: PyTree
) -> dict[str, Array]:
    """One autoencoder on vectors that it has not seen."""
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
    """Each set as it is and centred, behind the axis of seeds, and how far sets agree."""
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
    """How near each set's directions have one in another set: the mean over other sets."""
    kept = jnp.where(live[:, :, None], rows, 0)
    near = jax.vmap(jax.vmap(mean_max_cosine, (None, 0)), (0, None))(kept, kept)
    near = near * live.shape[1] / jnp.maximum(jnp.sum(live, axis=1), 1)[:, None]
    n = len(rows)
    return jnp.sum(jnp.where(jnp.eye(n, dtype=bool), 0, near), axis=1) / (n - 1)


def _components_error(seen: np.ndarray, held: np.ndarray, k: int) -> float:
    """What as many principal components leave of vectors that they were not made from."""
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
