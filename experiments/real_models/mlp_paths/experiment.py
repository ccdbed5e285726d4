"""Paths of SmolLM2-135M through heads and MLPs, from the tokens of a text to its next token.

With patterns, norm scales and gates held, the logit of the likeliest next token is a sum over
paths. Here are its sums by number of heads and of MLPs and how they cancel, and for some prompts
the linear map of each token. Each prompt is a stage of its own, so that a stopped run goes on where
it was.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.circuits.paths.frozen import frozen_model
from circuitax.kernel.gauge import centre_vocabulary
from circuitax.kernel.keys import derive, host_generator
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as forward_run
from circuitax.kit.members import stack_named
from circuitax.kit.real_model import at_hand, open_weights, text_excerpts, token_names
from circuitax.lab.lab import Lab
from experiments.real_models.mlp_paths.parts import (
    first_outputs,
    layer_maps,
    names_tokens,
    output_maps,
    split,
    stable_rank,
)
from experiments.real_models.shared.real_spec import RealSpec

KINDS = ("prose", "random tokens")
SINGULAR = 20  # singular values that are kept
# Dimensions of what is known of a prompt or a map, after its own.
AXES = {
    "by_heads": ("order",),
    "by_mlps": ("order",),
    "exact": ("source",),
    "rank_of": ("source",),
    "singular": ("source", "place"),
    "named": ("layer", "token"),
}


@dataclass(frozen=True)
class Spec(RealSpec):
    """The model, and its prompts.

    Attributes:
        prompts: Of each kind.
        length: Tokens of a prompt, odd.
        maps: Prompts of each kind whose linear maps are taken apart.
        shuffled: Prompts of each kind whose maps are taken apart with shuffled weights too.
    """

    prompts: Annotated[int, "[2, inf)"] = 10
    length: Annotated[int, "[5, inf)"] = 11
    maps: Annotated[int, "[1, prompts]"] = 2
    shuffled: Annotated[int, "[1, maps]"] = 1


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Split the logits of all prompts; without the packages say how to get them."""
    notes = at_hand(spec.weights, lab, text=True)
    if notes["missing"]:
        return xr.Dataset(attrs=notes)
    model = open_weights(spec.weights, derive(key, "weights"))
    rng = host_generator(derive(key, "prompts"))
    prose = text_excerpts(spec.weights, rng, spec.prompts, spec.length, middle=True)
    copies = rng.integers(0, model.d_vocab, size=(spec.prompts, (spec.length + 1) // 2))
    ids = np.concatenate([prose, np.concatenate([copies, copies[:, :-1]], axis=1)])

    def first(n: int) -> list[int]:
        return [kind * spec.prompts + i for kind in range(len(KINDS)) for i in range(n)]

    each = [
        lab.stage(f"prompt-{i:03d}", split, model, ids[i])
        for i in lab.track(range(len(ids)), "prompts")
    ]
    mapped = first(spec.maps)
    likeliest = np.array([each[i]["token"] for i in mapped])
    maps = [
        lab.stage(
            f"maps-{i:03d}", take_apart, model, ids[i], int(each[i]["exact"].argmax()), likeliest
        )
        for i in lab.track(mapped, "linear maps")
    ]
    other = shuffled_weights(model, host_generator(derive(key, "shuffled")))
    ranks = [
        lab.stage(f"shuffled-{i:03d}", ranks_of, other, ids[i])
        for i in lab.track(first(spec.shuffled), "shuffled weights")
    ]
    name = token_names(spec.weights)
    arrays: dict[str, Any] = {
        key: ((sample, *AXES.get(key, ())), stack_named(found, key))
        for sample, found in (("prompt", each), ("map", maps))
        for key in found[0]
    }
    arrays |= {
        "rank_shuffled": (("shuffled", "source"), np.stack(ranks)),
        "text": (("prompt", "source"), [[name(int(i)) for i in row] for row in ids]),
        "next": ("prompt", [name(int(one["token"])) for one in each]),
    }
    coords = {"kind": ("prompt", np.repeat(KINDS, spec.prompts)), "map_prompt": ("map", mapped)}
    return xr.Dataset(arrays, coords, notes)


def take_apart(
    model: Model, text: np.ndarray, source: int, tokens: np.ndarray
) -> dict[str, np.ndarray]:
    """Ranks of the maps of all tokens, and which tokens that of the source names, by layer."""
    frozen = frozen_model(forward_run(model, text, outputs=True))
    maps = np.asarray(output_maps(frozen, gain_of(model)))
    by_layer = np.moveaxis(np.asarray(layer_maps(frozen, source)), 1, 0)
    W_U = np.asarray(centre_vocabulary(frozen.read_out.W_U), np.float64)
    singular = np.linalg.svd(maps, compute_uv=False)[:, :SINGULAR]
    return {
        "rank_of": np.array([stable_rank(each) for each in maps]),
        "singular": np.pad(singular, ((0, 0), (0, SINGULAR - singular.shape[1]))),
        "named": np.stack([names_tokens(first_outputs(at), W_U, tokens) for at in by_layer]),
    }


def ranks_of(model: Model, text: np.ndarray) -> np.ndarray:
    """`stable_rank` of the map of each token."""
    maps = output_maps(frozen_model(forward_run(model, text, outputs=True)), gain_of(model))
    return np.array([stable_rank(each) for each in np.asarray(maps)])


def gain_of(model: Model) -> jax.Array:
    """Gain of the final norm; ones where it has none."""
    norm = model.final_norm
    return jnp.ones(model.d_model) if norm is None else jnp.asarray(norm.gain)


def shuffled_weights(model: Model, rng: np.random.Generator) -> Model:
    """The model with the entries of each matrix of each layer in random order."""

    def shuffled(weights: Any) -> Any:
        if np.ndim(weights) < 3:
            return weights
        rows = np.asarray(weights).reshape(weights.shape[0], -1)
        return jnp.asarray(rng.permuted(rows, axis=1).reshape(weights.shape))

    return model.replace(blocks=jax.tree.map(shuffled, model.blocks))
