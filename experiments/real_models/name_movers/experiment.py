"""Heads of SmolLM2-135M that bring the indirect object to the end, as name movers do.

"When Mary and John went to the store, John gave a drink to" goes on with Mary. Each head's direct
effect on the lead of Mary over John is read at the last position, with its attention to each name
from there. The heads with the largest effects are chosen on sentences of one half of the names, and
looked at on those of the other half, where they are removed too.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.attribution import attribute, over_mean_token
from circuitax.config.ranges import Positive
from circuitax.kernel.forward import forward
from circuitax.kernel.host_draws import host_generator
from circuitax.kernel.interventions import ablate_heads
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as forward_run
from circuitax.kit.real_model import (
    REAL,
    at_hand,
    check_real_name,
    open_weights,
    outside_inputs,
)
from circuitax.lab.lab import Lab
from experiments.real_models.name_movers.sentences import sentences


@dataclass(frozen=True)
class Spec:
    """The model, and its sentences.

    Attributes:
        weights: "smollm2", whose package may be absent, or "random" for a small model of ours.
        sentences: Of each half of the names.
        top: Heads that are chosen and removed together; three in the paper.
        draws: Random sets of as many heads that are removed.
    """

    weights: str = REAL
    sentences: Annotated[int, "[3, inf)"] = 40
    top: Positive = 3
    draws: Annotated[int, "[2, inf)"] = 5

    def __post_init__(self) -> None:
        check_real_name(self.weights)

    def outside_inputs(self) -> dict[str, str]:
        """Checksum of the weights, so that others make another run."""
        return outside_inputs(self.weights)


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


@jax.jit
def lead_without(
    model: Model,
    text: Int[Array, " n_ctx"],
    names: Int[Array, " name"],
    ablated: Float[Array, "layers heads"],
) -> Float[Array, ""]:
    """The lead of the indirect object over the subject with some heads removed."""
    logits = forward(model, text, ablate_heads(ablated))[0][-1][names]
    return logits[0] - logits[1]


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Read all sentences, choose heads on one half, remove them on the other."""
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
    movers = order[: spec.top]
    others = [rng.choice(order[spec.top :], spec.top, replace=False) for _ in range(spec.draws)]
    sets = {"movers": movers} | {f"random {i}": chosen for i, chosen in enumerate(others)}
    leads = []
    for name, chosen in sets.items():
        lab.log(f"without {name}")
        marks = np.zeros(size)
        marks[chosen] = 1.0
        removed = jnp.asarray(marks.reshape(model.n_layers, model.n_heads), found.logits.dtype)
        seen = zip(given.tokens[spec.sentences :], given.names[spec.sentences :], strict=True)
        leads.append(
            [
                lead_without(model, jnp.asarray(row), jnp.asarray(names), removed)
                for row, names in seen
            ]
        )

    def halves(x: np.ndarray) -> np.ndarray:
        return x.reshape(2, spec.sentences, *x.shape[1:])

    rows, columns = np.divmod(movers, model.n_heads)
    arrays = {
        "logit": (("half", "sentence", "name"), halves(found.logits)),
        "direct": (("half", "sentence", "name", "layer", "head"), halves(found.direct)),
        "attention": (("half", "sentence", "layer", "head", "place"), halves(found.attention)),
        "lead_without": (("without", "sentence"), np.array(leads)),
        "mover_layer": ("rank", rows),
        "mover_head": ("rank", columns),
    }
    coords = {
        "half": ["chosen on", "looked at"],
        "name": ["indirect object", "subject"],
        "place": ["indirect object", "subject", "subject again"],
        "without": list(sets),
    }
    return xr.Dataset(arrays, coords, notes)
