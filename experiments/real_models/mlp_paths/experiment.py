"""Paths of SmolLM2-135M through heads and MLPs, from the tokens of a text to its next token.

With patterns, norm scales and gates held, the logit of the likeliest next token is a sum over
paths. Here are its sums by order and by source token, and their cancellation; for some prompts the
largest paths with a proof, the tail of all others, and the linear map of each token; what other
scores find of the listed paths; and what happens when tokens and paths are removed for real. Each
prompt is a stage of its own, so that a stopped run goes on where it was.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.circuits.ledger.dressed_moments import dressed_bounds
from circuitax.circuits.ledger.ledger import head_ledger, position_ledger
from circuitax.circuits.ledger.path_mass import path_mass
from circuitax.circuits.paths.expansion import Path
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.config.ranges import Positive
from circuitax.kernel.gauge import centre_vocabulary
from circuitax.kernel.keys import derive, host_generator
from circuitax.kernel.model import Model
from circuitax.kit.real_model import (
    REAL,
    at_hand,
    check_real_name,
    open_weights,
    outside_inputs,
    text_excerpts,
    token_names,
)
from circuitax.lab.lab import Lab
from experiments.real_models.mlp_paths.parts import (
    TAIL,
    first_outputs,
    half_of,
    layer_maps,
    names_tokens,
    output_maps,
    read,
    shares_of_largest,
    split,
    stable_rank,
    two_head_paths,
    without_paths,
    without_tokens,
)

KINDS = ("prose", "random tokens")
SCORES = ("gradient", "relp", "direct", "plain")
SINGULAR = 20  # singular values that are kept
NEXT = 100  # paths after the removed ones, from which others are drawn
# Dimensions of what is known of a prompt, a list or a map, after its own.
AXES = {
    "by_heads": ("order",),
    "by_mlps": ("order",),
    "exact": ("source",),
    "relp": ("source",),
    "gradient": ("source",),
    "without_paths": ("set",),
    "path_sum": ("set",),
    "without_tokens": ("removal",),
    "removed_tokens": ("removal",),
    "on_list": ("layer", "head"),
    "scores": ("score", "layer", "head"),
    "value": ("rank",),
    "path": ("rank",),
    "held": ("largest",),
    "held_both": ("largest",),
    "rank_of": ("source",),
    "singular": ("source", "place"),
    "named": ("layer", "token"),
}


@dataclass(frozen=True)
class Spec:
    """The model, and its prompts.

    Attributes:
        weights: "smollm2", whose package may be absent, or "random" for a small model of ours.
        prompts: Of each kind.
        length: Tokens of a prompt, odd.
        lists: Prompts of each kind whose paths are listed, with the tail of those of two heads.
        maps: Prompts of each kind whose linear maps are taken apart.
        shuffled: Prompts of each kind whose maps are taken apart with shuffled weights too.
        k: Paths in a list.
        budget: Evaluations after which a search ends without a proof.
        removed: Paths of one head that are removed together.
        draws: Removals at random of each kind.
        walks: Random walks that estimate the absolute sum of all paths of a listed prompt.
    """

    weights: str = REAL
    prompts: Annotated[int, "[2, inf)"] = 10
    length: Annotated[int, "[5, inf)"] = 11
    lists: Annotated[int, "[1, prompts]"] = 2
    maps: Annotated[int, "[1, prompts]"] = 2
    shuffled: Annotated[int, "[1, maps]"] = 1
    k: Positive = 20
    budget: Annotated[int, "[1000, inf)"] = 1_000_000
    removed: Annotated[int, "[1, 100]"] = 10
    draws: Positive = 2
    walks: Annotated[int, "[2, inf)"] = 400

    def __post_init__(self) -> None:
        check_real_name(self.weights)
        if self.length % 2 == 0:
            raise ValueError(f"length={self.length} must be odd")

    def outside_inputs(self) -> dict[str, str]:
        """Checksums of weights and prose, so that other files make another run."""
        return outside_inputs(self.weights, text=True)


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
    seeds = rng.integers(2**32, size=len(ids))

    def first(n: int) -> list[int]:
        return [kind * spec.prompts + i for kind in range(len(KINDS)) for i in range(n)]

    each = [
        lab.stage(f"prompt-{i:03d}", examine, model, ids[i], seeds[i], spec)
        for i in lab.track(range(len(ids)), "prompts")
    ]
    lists = [
        lab.stage(f"list-{i:03d}", list_paths, model, ids[i], seeds[i], spec)
        for i in lab.track(first(spec.lists), "lists")
    ]
    mapped = first(spec.maps)
    likeliest = np.array([each[i]["token"] for i in mapped])
    maps = [
        lab.stage(f"maps-{i:03d}", take_apart, model, ids[i], likeliest)
        for i in lab.track(mapped, "linear maps")
    ]
    other = shuffled_weights(model, host_generator(derive(key, "shuffled")))
    ranks = [
        lab.stage(f"shuffled-{i:03d}", ranks_of, other, ids[i])
        for i in lab.track(first(spec.shuffled), "shuffled weights")
    ]
    name = token_names(spec.weights)
    arrays = _stacked(each, "prompt") | _stacked(lists, "list") | _stacked(maps, "map")
    arrays |= {
        "rank_shuffled": (("shuffled", "source"), np.stack(ranks)),
        "text": (("prompt", "source"), [[name(int(i)) for i in row] for row in ids]),
        "ids": (("prompt", "source"), ids),
        "next": ("prompt", [name(int(one["token"])) for one in each]),
        "right": ("prompt", np.append(np.full(spec.prompts, -1), copies[:, -1])),
    }
    coords = {
        "kind": ("prompt", np.repeat(KINDS, spec.prompts)),
        "list_prompt": ("list", first(spec.lists)),
        "map_prompt": ("map", mapped),
        "score": list(SCORES),
        "largest": list(TAIL),
        "set": ["largest", *(f"random {i}" for i in range(spec.draws))],
    }
    return xr.Dataset(arrays, coords, notes | {"k": spec.k, "removed": spec.removed})


def _stacked(found: list[dict[str, Any]], sample: str) -> dict[str, Any]:
    return {
        key: ((sample, *AXES.get(key, ())), np.stack([one[key] for one in found]))
        for key in found[0]
    }


def examine(model: Model, text: np.ndarray, seed: int, spec: Spec) -> dict[str, Any]:
    """One prompt's sums, and its logit without tokens and paths."""
    rng, ids = np.random.default_rng(int(seed)), jnp.asarray(text)
    found = split(read(model, ids))
    token = found.token
    tokens = np.asarray(found.exact.tokens)
    most = int(tokens.argmax())
    removed = np.append(most, rng.permutation(np.delete(np.arange(len(tokens)), most))[:1])
    one_head = np.asarray(found.one_head)
    by_size = np.argsort(-np.abs(one_head), axis=None)
    raising = np.argsort(-one_head, axis=None)[: spec.removed]
    others = by_size[~np.isin(by_size, raising)][:NEXT]
    draws = (rng.choice(others, spec.removed, replace=False) for _ in range(spec.draws))
    sets = np.stack([raising, *draws])
    paths = np.stack(np.unravel_index(sets, one_head.shape), axis=-1)
    return {
        "token": token,
        "logit": found.logit,
        "by_heads": found.by_heads,
        "by_mlps": found.by_mlps,
        "exact": tokens,
        "relp": found.relp.tokens,
        "gradient": found.gradient.tokens,
        "removed_tokens": removed,
        "without_tokens": without_tokens(model, ids, token, jnp.asarray(removed)),
        "path_sum": np.array([one_head.ravel()[cells].sum() for cells in sets]),
        "without_paths": without_paths(model, found.frozen, ids, token, jnp.asarray(paths)),
    }


def list_paths(model: Model, text: np.ndarray, seed: int, spec: Spec) -> dict[str, Any]:
    """The largest paths of one prompt, the tail of all others, and scores of heads."""
    seen = read(model, jnp.asarray(text))
    found, last = split(seen), len(text) - 1
    frozen, direction = found.frozen, found.direction
    pairs = np.abs(np.asarray(two_head_paths(frozen, last, direction))).ravel()
    single = np.abs(np.asarray(found.one_head)).ravel()
    both = np.concatenate([pairs, single, [abs(float(found.past_heads))]])
    bounds = dressed_bounds(frozen, last)
    k, budget = spec.k, spec.budget
    dressed = position_ledger(frozen, last, direction, k=k, budget=budget, bounds=bounds)
    walks = jax.random.key(int(seed))
    tail = path_mass(frozen, last, direction, walks, n_walks=spec.walks, bounds=bounds)
    plain = head_ledger(frozen_model(seen, mlps="sources"), last, direction, k=k, budget=budget)
    shape = found.direct.shape
    scores = [found.gradient.heads, found.relp.heads, found.direct]
    n = len(dressed.paths)
    places = [f"{place}" for place in range(len(text))]
    return {
        "complete": dressed.complete,
        "value": np.pad(dressed.values, (0, k - n)),
        "path": np.array([*dressed.steps(places), *[""] * (k - n)], dtype="U120"),
        "on_list": on_paths(dressed.paths, np.ones(n), shape) > 0,
        "scores": np.stack(
            [*map(np.asarray, scores), on_paths(plain.paths, np.abs(plain.values), shape)]
        ),
        "held": shares_of_largest(pairs),
        "held_both": shares_of_largest(both),
        "one_head_half": half_of(single),
        "half": tail.half,
    }


def on_paths(paths: tuple[Path, ...], sizes: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The largest size of a path through each head, 0 where there is none."""
    found = np.zeros(shape)
    for path, size in zip(paths, sizes, strict=True):
        for head in path:
            found[head] = max(found[head], size)
    return found


def take_apart(model: Model, text: np.ndarray, tokens: np.ndarray) -> dict[str, Any]:
    """Ranks of the maps of all tokens, and which tokens the one that carries most names."""
    seen = read(model, jnp.asarray(text))
    frozen = frozen_model(seen)
    most = int(split(seen).exact.tokens.argmax())
    maps = np.asarray(output_maps(frozen, gain_of(model)))
    by_layer = np.asarray(layer_maps(frozen, most))
    W_U = np.asarray(centre_vocabulary(frozen.read_out.W_U), np.float64)
    named = [names_tokens(first_outputs(at), W_U, tokens) for at in np.moveaxis(by_layer, 1, 0)]
    singular = np.linalg.svd(maps, compute_uv=False)[:, :SINGULAR]
    return {
        "rank_of": np.array([stable_rank(each) for each in maps]),
        "singular": np.pad(singular, ((0, 0), (0, SINGULAR - singular.shape[1]))),
        "named": np.stack(named),
    }


def ranks_of(model: Model, text: np.ndarray) -> np.ndarray:
    """`stable_rank` of the map of each token."""
    frozen = frozen_model(read(model, jnp.asarray(text)))
    return np.array([stable_rank(each) for each in np.asarray(output_maps(frozen, gain_of(model)))])


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
