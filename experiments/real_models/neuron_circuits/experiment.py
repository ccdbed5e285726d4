"""Fewest neurons and heads of SmolLM2-135M that keep a task, by what chooses them.

On sentences of three grammars a right next token leads over a wrong one, and over the other one in
a sentence that differs in who is meant. Neurons and heads are ranked by their effects on the lead,
on pairs of one half of the words. On those of the other half all but the first ones are set to
their means, position by position, and the lead that is left is read. Only pairs of which the model
gets both sentences right count, in both halves.
"""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.config.ranges import Positive
from circuitax.kernel.keys import derive, host_generator
from circuitax.kernel.model import Model
from circuitax.kit.members import stack_named
from circuitax.kit.real_model import at_hand, open_weights
from circuitax.lab.lab import Lab
from experiments.real_models.neuron_circuits.circuits import (
    METHODS,
    Nodes,
    leads_with,
    mlp_of,
    read,
    scores,
)
from experiments.real_models.shared.pairs import (
    AGREEMENT,
    OBJECT,
    PRONOUN,
    SIDES,
    Pairs,
    drawn_pairs,
)
from experiments.real_models.shared.real_spec import RealSpec

TASKS = (AGREEMENT, PRONOUN, OBJECT)
PARTS = ("neurons", "neurons and heads")
SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)
# Dimensions of what is known of a task.
AXES = {
    "lead": ("half", "pair", "side"),
    "kept": ("part", "chosen_by", "size", "pair", "side"),
    "by_chance": ("part", "order", "random_size", "pair", "side"),
    "empty": ("part", "pair", "side"),
}


@dataclass(frozen=True)
class Spec(RealSpec):
    """The model, its sentences, and the sizes of circuits.

    Attributes:
        pairs: Pairs of sentences of each half of the words, in each task.
        sizes: Neurons, or neurons and heads, that are kept; rising.
        orders: Random orders of the nodes, beside those that are chosen.
        random_sizes: Nodes that are kept of each of them; some of ``sizes``.
    """

    pairs: Annotated[int, "[2, inf)"] = 20
    sizes: Annotated[tuple[int, ...], "[1, inf)", "increasing"] = SIZES
    orders: Positive = 20
    random_sizes: Annotated[tuple[int, ...], "subset of sizes", "increasing"] = (300, 1000)

    PROSE = False


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Rank nodes on one half of the words, and keep the first ones on the other."""
    notes = at_hand(spec.weights, lab)
    if notes["missing"]:
        return xr.Dataset(attrs=notes)
    model = open_weights(spec.weights, derive(key, "weights"))
    rng = host_generator(derive(key, "sentences"))
    given = [drawn_pairs(spec.weights, task, spec.pairs, rng) for task in TASKS]
    seeds = rng.integers(2**32, size=len(TASKS))
    found = [
        lab.stage(task.replace(" ", "-"), examine, model, words, int(seed), spec)
        for task, words, seed in lab.track(list(zip(TASKS, given, seeds, strict=True)), "tasks")
    ]
    arrays = {name: (("task", *dims), stack_named(found, name)) for name, dims in AXES.items()}
    coords = {
        "task": list(TASKS),
        "half": ["chosen on", "looked at"],
        "part": list(PARTS),
        "chosen_by": list(METHODS),
        "size": list(spec.sizes),
        "random_size": list(spec.random_sizes),
    }
    n_neurons = int(np.prod(mlp_of(model).W_out.shape[:2]))
    n_heads = model.n_layers * model.n_heads
    return xr.Dataset(arrays, coords, notes | {"n_neurons": n_neurons, "n_heads": n_heads})


def examine(model: Model, given: Pairs, seed: int, spec: Spec) -> dict[str, np.ndarray]:
    """Leads of one task, of the whole model and of circuits; the first half is chosen on."""
    n_pairs = given.right.shape[1]
    first, second = (
        tuple(jnp.asarray(part[half].reshape(-1, *part.shape[3:])) for part in given)
        for half in (0, 1)
    )
    seen = read(model, *first)
    lead = np.stack([seen.lead, read(model, *second).lead]).reshape(2, n_pairs, SIDES)
    right = (lead[0] > 0).all(axis=1)
    counted = np.repeat(right if right.any() else np.ones_like(right), SIDES)
    mean = jax.tree.map(lambda x: x[counted].mean(axis=0), seen.nodes)
    effects = jax.tree.map(lambda x: x[counted].mean(axis=0), scores(model, *first, mean))
    ranked = [
        Nodes(*(np.abs(np.asarray(part[i])) for part in effects)) for i in range(len(METHODS))
    ]
    rng = np.random.default_rng(seed)
    drawn = [Nodes(*(rng.random(part.shape) for part in ranked[0])) for _ in range(spec.orders)]

    def left(by: Nodes, size: int, part: str) -> np.ndarray:
        kept = first_of(by, size, part == PARTS[0])
        return np.asarray(leads_with(model, *second, mean, kept)).reshape(n_pairs, SIDES)

    def curves(orders: list[Nodes], sizes: tuple[int, ...]) -> np.ndarray:
        return np.array(
            [[[left(by, size, part) for size in sizes] for by in orders] for part in PARTS]
        )

    return {
        "lead": lead,
        "kept": curves(ranked, spec.sizes),
        "by_chance": curves(drawn, spec.random_sizes),
        "empty": np.array([left(ranked[0], 0, part) for part in PARTS]),
    }


def first_of(ranked: Nodes, size: int, all_heads: bool) -> Nodes:
    """1 for the first nodes by size, 0 for all others; heads may be all kept and not counted."""
    parts = [ranked.neurons] if all_heads else list(ranked)
    flat = np.concatenate([part.ravel() for part in parts])
    kept = np.zeros(flat.size, np.float32)
    kept[np.argsort(-flat, kind="stable")[:size]] = 1.0
    neurons = kept[: ranked.neurons.size].reshape(ranked.neurons.shape)
    heads = kept[ranked.neurons.size :] if not all_heads else np.ones(ranked.heads.size, np.float32)
    return Nodes(neurons, heads.reshape(ranked.heads.shape))
