"""Features of a model: directions that sparse autoencoders find in its stream.

Nobody knows the true features of a model, so several autoencoders are trained on the same vectors,
each from its own start and with its own batches, and all are measured.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from circuitax.config.ranges import Positive
from circuitax.data.synthetic import VectorSource
from circuitax.kernel.forward import behind_start, final_stream
from circuitax.kernel.keys import at_index, derive
from circuitax.kernel.model import Model
from circuitax.kit.measured_training import measured_training
from circuitax.lab.lab import Lab
from circuitax.models.autoencoder import Autoencoder, Sparsity
from circuitax.projection.coherence import unit_rows
from circuitax.projection.packings import welch_bound
from circuitax.superposition.features import dimensionality_of_rows
from circuitax.training import ensemble
from circuitax.training.dictionary import reconstruction_loss
from circuitax.training.ensemble import Mapping, Plan
from circuitax.training.optim import OptimSpec
from experiments.directions.text_superposition.models import APART

_AT_ONCE = 64  # windows
# Heads of SmolLM2 that find nothing attend to the first token of a text, where the stream is more
# than a hundred times as long as elsewhere and has one direction, whatever the token is. So it is
# at boundary tokens. It would be most of what an autoencoder learns: vectors beyond this many times
# the median length are left out. Our text model has none.
_TOO_LONG = 10.0


@dataclass(frozen=True)
class FeatureSpec:
    """TopK autoencoders on the stream halfway through a model.

    Attributes:
        vectors: Of the stream on held-out text, fewer where there is less text; a quarter is kept
            to measure on.
        expansion: Latents of an autoencoder, as a multiple of the dimensions.
        active: Latents that are on at a time, k.
        seeds: Autoencoders, each with its own start and batches.
        batch: Vectors a step.
        optim: Optimizer.
        chunk: Steps between two returns to Python.
    """

    vectors: Annotated[int, "[64, inf)"] = 131_072
    expansion: Positive = 4
    active: Positive = 8
    seeds: Annotated[int, "[2, inf)"] = 8
    batch: Positive = 256
    optim: OptimSpec = field(default_factory=OptimSpec)
    chunk: Annotated[int, "divides optim.steps"] = 250


@dataclass(frozen=True)
class VectorDictionary:
    """The autoencoder gives back vectors; ``hyper`` is k of its TopK.

    Source: Bricken et al. 2023, "Towards Monosemanticity"; Gao et al. 2024.
    """

    autoencoder: Autoencoder
    source: VectorSource

    def init(self, key: Key[Array, ""], hyper: Float[Array, ""]) -> PyTree:
        """Random directions; the encoder is their transpose."""
        h = jnp.zeros((1, self.autoencoder.d_in))
        return self.autoencoder.init(key, h, jnp.ones(()))["params"]

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> Float[Array, "batch d_in"]:
        """The vectors of one step."""
        return self.source(at_index(key, step))

    def loss(
        self, params: PyTree, batch: Float[Array, "batch d_in"], hyper: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Squared error and the cost of sparsity."""
        return reconstruction_loss(self.autoencoder, params, batch, hyper)


def features(
    lab: Lab,
    spec: FeatureSpec,
    name: str,
    model: Model,
    windows: Int[np.ndarray, "window n_ctx"],
    key: Key[Array, ""],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train autoencoders on the stream halfway through a model, and measure their directions.

    Returns arrays with an axis ``seed``, not a number for those that diverged; and notes.
    """
    layer, d_model = model.n_layers // 2, model.d_model
    seen, held, left_out = _vectors(lab, f"streams-{name}", model, windows, layer)
    module = Autoencoder(Sparsity.topk, spec.expansion * d_model, d_model)
    problem = VectorDictionary(module, VectorSource(spec.batch, jnp.asarray(seen)))
    plan = Plan(problem, spec.optim, spec.chunk, Mapping.vmap, mesh=None)
    strengths = jnp.full(spec.seeds, float(spec.active))
    members = ensemble.new_members(derive(key, "train"), spec.optim.learning_rate, strengths)
    state, advance = ensemble.init(plan, members), ensemble.advance(plan, members)
    trained = measured_training(
        lab, f"features-{name}", state, advance, steps=spec.optim.steps, every=spec.chunk
    )
    k = jnp.asarray(spec.active, float)
    score = jax.jit(partial(jax.lax.map, partial(_scores, module, jnp.asarray(held), k)))
    error, live = score(trained.models)
    rows = jax.vmap(partial(_directions, module))(trained.models)
    random = jax.random.normal(derive(key, "random"), rows.shape, float)
    null = {f"null_{what}": x for what, x in _measured(random, live).items()}
    welch = welch_bound(np.asarray(live.sum(axis=1)), d_model)
    arrays: dict[str, Any] = {}
    for what, x in (_measured(rows, live) | null | {"welch": welch, "error": error}).items():
        values = np.array(x, float)
        values[~trained.alive] = np.nan
        arrays[what] = (("seed", "centred")[: values.ndim], values)
    notes = {
        "trained_on": len(seen),
        "measured_on": len(held),
        "left_out": left_out,
        "divergence": trained.divergence,
    }
    return arrays, notes


def _vectors(
    lab: Lab, name: str, model: Model, windows: Int[np.ndarray, "window n_ctx"], layer: int
) -> tuple[Float[np.ndarray, "n d_model"], Float[np.ndarray, "m d_model"], int]:
    """The stream before a layer: to train on, of other windows to measure on, and those left out.

    The mean of the first is taken off both, and its mean square norm becomes 1.
    """
    texts = behind_start(jnp.asarray(windows), model.spec.start_token)
    # Without the layers from this one on, the final stream is this one's input.
    blocks = jax.tree.map(lambda weight: weight[:layer], model.blocks)
    below = model.replace(blocks=blocks, spec=model.spec.replace(n_layers=layer))
    streams = lab.stage(name, _final_streams, below, texts)
    lengths = np.linalg.norm(streams, axis=-1)
    kept = lengths <= _TOO_LONG * np.median(lengths)
    apart = np.arange(len(windows)) % APART == 0
    seen, held = (streams[mask][kept[mask]] for mask in (~apart, apart))
    mean = seen.mean(axis=0, dtype=float)
    size = np.sqrt(((seen - mean) ** 2).sum(axis=1).mean())
    seen, held = (((x - mean) / size).astype(np.float32) for x in (seen, held))
    return seen, held, int((~kept).sum())


@jax.jit
def _final_streams(
    model: Model, texts: Int[Array, "window n_ctx"]
) -> Float[Array, "window n_ctx d_model"]:
    return jax.lax.map(lambda text: final_stream(model, text)[0], texts, batch_size=_AT_ONCE)


def _directions(module: Autoencoder, params: PyTree) -> Float[Array, "width d_in"]:
    return jnp.asarray(module.apply({"params": params}, method="directions"))


def _scores(
    module: Autoencoder, held: Float[Array, "n d_in"], k: Float[Array, ""], params: PyTree
) -> tuple[Float[Array, ""], Bool[Array, " width"]]:
    """Error of one autoencoder on held-out vectors, and the latents that are on for any."""
    passed: Any = module.apply({"params": params}, held, k)
    coded, back = passed
    live = jnp.mean(coded.codes > 0, axis=0) > 0
    return jnp.sum((held - back) ** 2) / jnp.sum(held**2), live


@jax.jit
def _measured(
    rows: Float[Array, "seed n d"], live: Bool[Array, "seed n"]
) -> dict[str, Float[Array, "seed ..."]]:
    """Overlaps and dimensions of each set's live rows, raw and centred.

    How many are live differs between sets, so that a mask marks them: one program serves all.
    """

    def one(rows: Float[Array, "n d"], live: Bool[Array, " n"]) -> dict[str, Float[Array, "..."]]:
        unit = unit_rows(rows)
        pair = live[:, None] & live[None, :] & ~jnp.eye(len(rows), dtype=bool)
        n_pairs = jnp.sum(pair)
        share = jnp.where(n_pairs > 0, 1 / jnp.maximum(n_pairs, 1), jnp.nan)
        size = jnp.where(pair, jnp.abs(jnp.matmul(unit, unit.T, precision="highest")), 0)
        used = dimensionality_of_rows(jnp.where(live[:, None], rows, 0))
        return {"mean_square": jnp.sum(size**2) * share, "dimensionality_sum": jnp.sum(used)}

    each = [jax.vmap(one)(x, live) for x in (rows, jax.vmap(_centred)(rows, live))]
    return {name: jnp.stack([x[name] for x in each], axis=1) for name in each[0]}


def _centred(rows: Float[Array, "n d"], live: Bool[Array, " n"]) -> Float[Array, "n d"]:
    """Live rows with their mean taken off; the others become 0."""
    kept = live[:, None]
    mean = jnp.sum(jnp.where(kept, rows, 0), axis=0) / jnp.maximum(jnp.sum(live), 1)
    return jnp.where(kept, rows - mean[None], 0)
