"""Roles of heads, told apart by their attention and by patching."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.detectors import detect, prefix_mask, previous_mask
from circuitax.circuits.patching import ablated_metrics, each_component
from circuitax.circuits.paths.components import (
    attribute,
    component_names,
    components_of,
    over_mean_token,
)
from circuitax.circuits.weights.folding import norm_price
from circuitax.config.ranges import Positive
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.kit.kept_models import KeptModels, kept_windows
from circuitax.kit.members import each_member
from circuitax.lab.lab import Lab
from experiments.induction.head_roles.patching import (
    ROUTES,
    of_pairs,
    swapped_pairs,
    swapped_places,
)
from experiments.induction.shared.head_roles import roles

HEADS = ("member", "layer", "head")
# Of all that is read of the two-layer models.
AXES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("previous", "prefix"), HEADS),
    "routes": ("member", "writer", "route"),
    "stream": ("member", "place", "position"),
}


@dataclass(frozen=True)
class Spec:
    """Texts for the models of ``two_layer_circuits`` and the full ones of ``text_models``.

    Attributes:
        texts: Texts of random tokens, repeated, on which heads get their roles.
        pairs: Clean and corrupted texts to patch between.
        windows: Held-out windows for the full transformers, from the first of those kept.
    """

    texts: Positive = 32
    pairs: Positive = 32
    windows: Positive = 64


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Roles and patches of small models that do induction, components of models of real text."""
    return xr.merge([induction(spec, key, lab), full(spec, lab)])


def induction(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Two layers, many seeds: scores of heads, patches between pairs of texts."""
    upstream, kept = lab.input("two_layer_circuits"), KeptModels.of_input(lab, "two_layer_circuits")
    models, task = kept.members("two-layers"), RepeatedSource(**upstream.notes["task"])
    texts = replace(task, batch=spec.texts, distinct=True)(derive(key, "texts"))
    pairs = swapped_pairs(derive(key, "pairs"), spec.pairs, task.d_vocab, task.max_period)
    found = lab.stage("looking", each_member(of_texts, texts), models)
    found = found | lab.stage("patching", each_member(of_pairs, pairs), models)
    data = xr.Dataset(
        {name: (axes, found[name]) for name, axes in AXES.items()},
        coords={
            "place": [*(f"into layer {i}" for i in range(models.n_layers)), "final"],
            "route": list(ROUTES),
            "head": range(models.n_heads),
        },
    )
    swapped = np.array(swapped_places(task.max_period))
    return roles(data.assign(alive=upstream.data.alive, swapped=("swap", swapped)))


def full(spec: Spec, lab: Lab) -> xr.Dataset:
    """Pre-LN with MLPs, a few seeds: components at their means, and norms.

    Raises:
        ValueError: If ``text_models`` trained no full transformer.
    """
    upstream, kept = lab.input("text_models"), KeptModels.of_input(lab, "text_models")
    if "full" not in kept.names:
        raise ValueError("full_seeds=0 of text_models must be at least 1: there is no full model")
    last = kept.members("full")
    windows = kept_windows(lab, "text_models", spec.windows)
    found = lab.stage("components", each_member(of_windows, windows), last)
    parts = jax.eval_shape(lambda m: components_of(run_model(m, windows[0], outputs=True)), last[0])
    names = component_names(parts)
    members = "full_member"
    alive = upstream.data.alive.sel(model="full").values[: len(found["loss"])]
    return xr.Dataset(
        {name: (members, found[name]) for name in ("loss", "norm_price")}
        | {
            "nats_lost": ((members, "replaced", "cell"), found["nats_lost"]),
            "remainder_full": (members, found["remainder"]),
            "full_alive": (members, alive == 1),
            "full_uniform": np.log(last.d_vocab),
        },
        coords={
            "replaced": ["mean"],
            "cell": [name for name in names if name.startswith(("head", "mlp"))],
        },
    )


def of_texts(model: Model, texts: Array) -> dict[str, Array]:
    """Attention to the previous token, and to the token after an earlier copy, of every head."""

    def one(text: Array) -> dict[str, Array]:
        patterns = run_model(model, text).trace.patterns
        masks = {"previous": previous_mask(text), "prefix": prefix_mask(text)}
        return {name: detect(patterns, mask).score for name, mask in masks.items()}

    return {name: x.mean(axis=0) for name, x in jax.lax.map(one, texts).items()}


def of_windows(model: Model, windows: Array) -> dict[str, Array]:
    """Means over windows: nats lost with each component at its mean, and with constant norms.

    ``remainder`` is what direct effects of all components leave of the logits.
    """
    parts = jax.lax.map(lambda text: components_of(run_model(model, text, outputs=True)), windows)
    mean = jax.tree.map(lambda x: x.mean(axis=0), parts)
    cells = each_component(model)

    def one(text: Array) -> dict[str, Array]:
        seen = run_model(model, text, outputs=True)

        def loss(logits: Array) -> Array:
            return next_token_losses(logits, text).mean()

        centred = over_mean_token(seen)
        split = attribute(centred, jnp.roll(text, -1))
        return {
            "loss": loss(seen.logits),
            "ablated": ablated_metrics(model, text, cells, loss, replacement=mean)[None],
            "remainder": jnp.abs(split.remainder).max() / jnp.abs(centred.logits).max(),
        }

    found = jax.lax.map(one, windows)
    worst = found.pop("remainder").max()
    means = jax.tree.map(lambda x: x.mean(axis=0), found)
    return means | {
        "nats_lost": means["ablated"] - means["loss"],
        "remainder": worst,
        "norm_price": norm_price(model, windows).price,
    }
