"""Heads of SmolLM2-135M that bring the indirect object to the end, as name movers do.

"When Mary and John went to the store, John gave a drink to" goes on with Mary. Each head's direct
effect on the lead of Mary over John is read at the last position, with its attention to each name
from there. The heads with the largest effects are chosen on sentences of one half of the names, and
looked at on those of the other half.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.components import attribute, over_mean_token
from circuitax.config.ranges import Positive
from circuitax.kernel.keys import host_generator
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as forward_run
from circuitax.kit.real_model import at_hand, open_weights
from circuitax.lab.lab import Lab
from experiments.real_models.name_movers.sentences import sentences
from experiments.real_models.shared.real_spec import RealSpec


@dataclass(frozen=True)
class Spec(RealSpec):
    """The model, and its sentences.

    Attributes:
        sentences: Of each half of the names.
        top: Heads that are chosen; three in the paper.
    """

    sentences: Annotated[int, "[3, inf)"] = 40
    top: Positive = 3

    PROSE = False


class Reading(NamedTuple):
    """Results of one pass over one sentence, all at its last position.

    Attributes:
        logits: Of the indirect object and of the subject.
        direct: What each head adds to each of the two, over what it adds to the mean token.
        attention: To the indirect object, the subject, and the subject again.
    """

    logits: Float[Array, " name"]
    direct: Float[Array, "name layers heads"]
    attention: Float[Array, "layers heads place"]


@jax.jit
def read(
    model: Model, text: Int[Array, " n_ctx"], names: Int[Array, " name"], at: Int[Array, " place"]
) -> Reading:
    """Logits, direct effects and attention at the end of one sentence."""
    seen = forward_run(model, text, outputs=True)
    centred = over_mean_token(seen)
    direct = [
        attribute(centred, jnp.full(text.shape[0], name)).parts.heads[..., -1] for name in names
    ]
    return Reading(seen.logits[-1][names], jnp.stack(direct), seen.patterns[:, :, -1][..., at])


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Read all sentences, and choose heads on one half."""
    weights_key, draws_key = jax.random.split(key)
    notes = at_hand(spec.weights, lab)
    if notes["missing"]:
        return xr.Dataset(attrs=notes)
    model = open_weights(spec.weights, weights_key)
    size = model.n_layers * model.n_heads
    if spec.top > size // 2:
        raise ValueError(f"top={spec.top} must be at most {size // 2}, half of the heads")
    rng = host_generator(draws_key)
    given = sentences(spec.weights, spec.sentences, rng)
    lab.log(f"{len(given.tokens)} sentences")
    each = [
        read(model, *map(jnp.asarray, (row, names, at)))
        for row, names, at in zip(*given, strict=True)
    ]
    found = jax.tree.map(lambda *leaves: np.stack(leaves), *each)
    effect = found.direct[:, 0] - found.direct[:, 1]
    order = np.argsort(-effect[: spec.sentences].mean(axis=0).ravel(), kind="stable")

    def halves(x: np.ndarray) -> np.ndarray:
        return x.reshape(2, spec.sentences, *x.shape[1:])

    rows, columns = np.divmod(order[: spec.top], model.n_heads)
    arrays = {
        "logit": (("half", "sentence", "name"), halves(found.logits)),
        "direct": (("half", "sentence", "name", "layer", "head"), halves(found.direct)),
        "attention": (("half", "sentence", "layer", "head", "place"), halves(found.attention)),
        "mover_layer": ("rank", rows),
        "mover_head": ("rank", columns),
    }
    coords = {
        "half": ["chosen on", "looked at"],
        "name": ["indirect object", "subject"],
        "place": ["indirect object", "subject", "subject again"],
    }
    return xr.Dataset(arrays, coords, notes)
