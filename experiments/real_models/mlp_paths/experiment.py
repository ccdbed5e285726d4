"""Paths of SmolLM2-135M through heads and MLPs, from the tokens of a text to its next token.

With patterns, norm scales and gates held, the logit of the likeliest next token is a sum over
paths. Here are its sums by order and by source token, and their cancellation; for some prompts the
largest paths with a proof, the tail of all others, and the linear map of each token; what other
scores find of the listed paths; and what happens when tokens and paths are removed for real. Each
prompt is a stage of its own, so that a stopped run goes on where it was.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.ledger.dressed_moments import dressed_bounds
from circuitax.circuits.ledger.ledger import Ledger, head_ledger, position_ledger
from circuitax.circuits.ledger.path_mass import path_mass
from circuitax.circuits.paths.expansion import Path
from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.kernel.checks import check_range
from circuitax.kernel.gauge import centre_vocabulary
from circuitax.kernel.keys import derive, host_generator
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run
from circuitax.kit.checks import require_at_least, require_at_most
from circuitax.kit.memory import require_arrays
from circuitax.kit.real_model import (
    REAL,
    at_hand,
    check_real_name,
    open_weights,
    outside_inputs,
    text_stretches,
    token_names,
)
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from experiments.real_models.mlp_paths.linear_maps import (
    first_outputs,
    layer_maps,
    names_tokens,
    output_maps,
    stable_rank,
)
from experiments.real_models.mlp_paths.orders import two_head_paths
from experiments.real_models.mlp_paths.removals import without_paths, without_tokens
from experiments.real_models.mlp_paths.split import read, split
from experiments.real_models.mlp_paths.tail import TAIL, half_of, shares_of_largest

KINDS = ("prose", "random tokens")
SCORES = ("gradient", "relp", "direct", "plain")
SINGULAR = 20  # singular values that are kept
NEXT = 100  # paths after the removed ones, from which others are drawn


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
    prompts: int = 10
    length: int = 11
    lists: int = 2
    maps: int = 2
    shuffled: int = 1
    k: int = 20
    budget: int = 1_000_000
    removed: int = 10
    draws: int = 2
    walks: int = 400

    def __post_init__(self) -> None:
        check_real_name(self.weights)
        require_at_least(self, 2, "prompts", "walks")
        require_at_least(self, 5, "length")
        require_at_least(self, 1, "lists", "maps", "shuffled", "k", "removed", "draws")
        require_at_least(self, 1000, "budget")
        require_at_most(self, "prompts", "lists", "maps")
        require_at_most(self, "maps", "shuffled")
        if self.length % 2 == 0:
            raise ValueError(f"length={self.length} must be odd")
        require_arrays(
            self, "2 prompts 270", "draws removed 3", "2 prompts length", "k length", "300 walks"
        )

    def outside_inputs(self) -> dict[str, str]:
        """Checksums of weights and prose, so that other files make another run."""
        return outside_inputs(self.weights, text=True)


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Split the logits of all prompts; without the packages say how to get them."""
    notes = at_hand(spec.weights, lab, text=True)
    if notes["missing"]:
        return Record(data=xr.Dataset(), notes=notes)
    model = open_weights(spec.weights, derive(key, "weights"))
    n_paths = model.n_layers * model.n_heads * spec.length
    check_range("removed", spec.removed, f"[1, {min(NEXT, n_paths // 2)}]")
    rng = host_generator(derive(key, "prompts"))
    texts = {KINDS[0]: text_stretches(spec.weights, rng, spec.prompts, spec.length, middle=True)}
    copies = rng.integers(0, model.d_vocab, size=(spec.prompts, (spec.length + 1) // 2))
    texts[KINDS[1]] = np.concatenate([copies, copies[:, :-1]], axis=1)
    ids = np.concatenate(list(texts.values()))
    seeds = rng.integers(2**32, size=len(ids))

    def first(n: int) -> list[int]:
        return [kind * spec.prompts + i for kind in range(len(KINDS)) for i in range(n)]

    each = [
        lab.stage(f"prompt-{i:03d}", examine, model, text, seed, spec)
        for i, (text, seed) in enumerate(
            lab.track(zip(ids, seeds, strict=True), "prompts", len(ids))
        )
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
    axes = {
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
        "neurons_value": ("rank",),
        "neurons_path": ("rank",),
        "held": ("largest",),
        "held_both": ("largest",),
        "absolute_interval": ("end",),
        "half_interval": ("end",),
        "rank_of": ("source",),
        "singular": ("source", "place"),
        "named": ("layer", "token"),
    }
    name = token_names(spec.weights)

    def stacked(found: list[dict[str, Any]], sample: str) -> dict[str, Any]:
        return {
            key: ((sample, *axes.get(key, ())), np.stack([one[key] for one in found]))
            for key in found[0]
        }

    data = xr.Dataset(
        stacked(each, "prompt")
        | stacked(lists, "list")
        | stacked(maps, "map")
        | {
            "rank_shuffled": (("shuffled", "source"), np.stack(ranks)),
            "text": (("prompt", "source"), [[name(int(i)) for i in row] for row in ids]),
            "ids": (("prompt", "source"), ids),
            "next": ("prompt", [name(int(one["token"])) for one in each]),
            "right": ("prompt", np.append(np.full(spec.prompts, -1), copies[:, -1])),
        },
        coords={
            "kind": ("prompt", np.repeat(KINDS, spec.prompts)),
            "list_prompt": ("list", first(spec.lists)),
            "map_prompt": ("map", mapped),
            "score": list(SCORES),
            "largest": list(TAIL),
            "end": ["low", "high"],
            "set": ["largest", *(f"random {i}" for i in range(spec.draws))],
        },
    )
    return Record(data=data, notes=notes | {"k": spec.k, "removed": spec.removed})


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
    """The largest paths of one prompt, of its lead and to neurons; the tail; scores of heads."""
    seen = read(model, jnp.asarray(text))
    found, last = split(seen), len(text) - 1
    pairs = np.abs(np.asarray(two_heads(found.frozen, last, found.direction))).ravel()
    single = np.abs(np.asarray(found.one_head)).ravel()
    both = np.concatenate([pairs, single, [abs(float(found.past_heads))]])
    bounds = dressed_bounds(found.frozen, last)

    def largest(direction: Array, neurons: bool = False) -> Ledger:
        return position_ledger(
            found.frozen,
            last,
            direction,
            k=spec.k,
            budget=spec.budget,
            bounds=bounds,
            neurons=neurons,
        )

    dressed, opened = largest(found.direction), largest(found.direction, neurons=True)
    lead = largest(lead_direction(seen, found.frozen))
    tail = path_mass(
        found.frozen,
        last,
        found.direction,
        jax.random.key(int(seed)),
        n_walks=spec.walks,
        bounds=bounds,
    )
    plain = head_ledger(
        frozen_model(seen, mlps="sources"), last, found.direction, k=spec.k, budget=spec.budget
    )
    shape = found.direct.shape
    scores = [found.gradient.heads, found.relp.heads, found.direct]
    n = len(dressed.paths)
    names = token_places(text)
    return {
        "complete": dressed.complete,
        "plain_complete": plain.complete,
        "n_evaluated": dressed.n_evaluated,
        "omitted_bound": dressed.omitted_bound,
        "closing_error": abs(dressed.found + dressed.remainder - float(found.logit)),
        "value": np.pad(dressed.values, (0, spec.k - n)),
        "path": np.array([*dressed.steps(names), *[""] * (spec.k - n)], dtype="U120"),
        "lead_complete": lead.complete,
        "lead_evaluated": lead.n_evaluated,
        "neurons_complete": opened.complete,
        "neurons_evaluated": opened.n_evaluated,
        "neurons_bound": opened.omitted_bound,
        "neurons_value": np.pad(opened.values, (0, spec.k - len(opened.values))),
        "neurons_path": np.array(
            [*opened.steps(names), *[""] * (spec.k - len(opened.values))], dtype="U120"
        ),
        "on_list": on_paths(dressed.paths, np.ones(n), shape) > 0,
        "scores": np.stack(
            [*map(np.asarray, scores), on_paths(plain.paths, np.abs(plain.values), shape)]
        ),
        "held": shares_of_largest(pairs),
        "held_both": shares_of_largest(both),
        "one_head_sum": found.one_head.sum(),
        "one_head_absolute": single.sum(),
        "one_head_half": half_of(single),
        "two_head_absolute": pairs.sum(),
        "two_head_half": half_of(pairs),
        "absolute": tail.absolute,
        "absolute_interval": np.array(tail.absolute_interval),
        "half": tail.half,
        "half_interval": np.array(tail.half_interval),
    }


def lead_direction(seen: Run, frozen: FrozenModel) -> Array:
    """Of the likeliest next token over the second."""
    first, second = jnp.argsort(-seen.logits[-1])[:2]
    return frozen.read_out.W_U[:, first] - frozen.read_out.W_U[:, second]


@jax.jit
def two_heads(frozen: FrozenModel, position: int, direction: Array) -> Array:
    """`two_head_paths`, compiled."""
    return two_head_paths(frozen, position, direction)


def token_places(text: np.ndarray) -> list[str]:
    """Names of tokens by their places in the text."""
    return [f"{place}" for place in range(len(text))]


def on_paths(paths: tuple[Path, ...], sizes: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The largest size of a path through each head, 0 where there is none."""
    found = np.zeros(shape)
    for path, size in zip(paths, sizes, strict=True):
        for head in path:
            found[head] = max(found[head], size)
    return found


def take_apart(model: Model, text: np.ndarray, tokens: np.ndarray) -> dict[str, Any]:
    """Ranks of the maps of all tokens, and the words of that which carries most, by layer.

    Args:
        model: The model.
        text: Token ids.
        tokens: Of which each layer says whether its map names them.
    """
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
    """`linear_maps.stable_rank` of the map of each token."""
    seen = read(model, jnp.asarray(text))
    maps = np.asarray(output_maps(frozen_model(seen), gain_of(model)))
    return np.array([stable_rank(each) for each in maps])


def gain_of(model: Model) -> Array:
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
