"""Fewest neurons and heads of SmolLM2-135M that keep a task, by what chooses them.

On sentences of three grammars a right next token leads over a wrong one. Neurons and heads are
ranked by their effects on the lead, on sentences of one half of the words. On those of the other
half all but the first ones are set to their means, position by position, and the lead that is left
is read. Only sentences that the model gets right count, in both halves.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.kernel.host_draws import host_generator
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kit.checks import require_at_least
from circuitax.kit.memory import require_arrays
from circuitax.kit.real_model import REAL, at_hand, check_real_name, open_weights, outside_inputs
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from experiments.real_models.neuron_circuits.circuits import (
    METHODS,
    Nodes,
    leads_with,
    mlp_of,
    read,
    scores,
)
from experiments.real_models.neuron_circuits.tasks import TASKS, Sentences, sentences

RANDOM = "random"
PARTS = ("neurons", "neurons and heads")


@dataclass(frozen=True)
class Spec:
    """The model, its sentences, and the sizes of circuits.

    Attributes:
        weights: "smollm2", whose package may be absent, or "random" for a small model of ours.
        sentences: Of each half of the words, in each task.
        sizes: Neurons, or neurons and heads, that are kept; rising.
    """

    weights: str = REAL
    sentences: int = 20
    sizes: tuple[int, ...] = (10, 30, 100, 300, 1000, 3000, 10_000)

    def __post_init__(self) -> None:
        check_real_name(self.weights)
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        require_at_least(self, 2, "sentences")
        require_at_least(self, 1, "sizes")
        if not self.sizes or list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"sizes={self.sizes} must be rising numbers, at least one")
        # Activations and outputs of 270 heads on sentences of five tokens or more.
        require_arrays(self, "sentences 777600")

    def outside_inputs(self) -> dict[str, str]:
        """Checksum of the weights, so that others make another run."""
        return outside_inputs(self.weights)


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Rank nodes on one half of the words, and keep the first ones on the other."""
    notes = at_hand(spec.weights, lab)
    if notes["missing"]:
        return Record(data=xr.Dataset(), notes=notes)
    model = open_weights(spec.weights, derive(key, "weights"))
    rng = host_generator(derive(key, "sentences"))
    given = [sentences(spec.weights, task, spec.sentences, rng) for task in TASKS]
    seeds = rng.integers(2**32, size=len(TASKS))
    found = [
        lab.stage(task.replace(" ", "-"), examine, model, words, int(seed), spec.sizes)
        for task, words, seed in lab.track(list(zip(TASKS, given, seeds, strict=True)), "tasks")
    ]
    each = {name: np.stack([one[name] for one in found]) for name in found[0]}
    axes = {"lead": ("half", "sentence"), "kept": ("part", "chosen_by", "size", "sentence")}
    axes |= {"empty": ("part", "sentence"), "heads_kept": ("chosen_by", "size")}
    data = xr.Dataset(
        {name: (("task", *axes[name]), value) for name, value in each.items()},
        coords={
            "task": list(TASKS),
            "half": ["chosen on", "looked at"],
            "part": list(PARTS),
            "chosen_by": [*METHODS, RANDOM],
            "size": list(spec.sizes),
        },
    )
    n_neurons = int(np.prod(mlp_of(model).W_out.shape[:2]))
    return Record(data=data, notes=notes | {"n_neurons": n_neurons})


def examine(
    model: Model, given: Sentences, seed: int, sizes: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """Leads of one task, of the whole model and of circuits.

    Args:
        model: The model.
        given: Sentences, the first half to choose on.
        seed: Of the random ranking.
        sizes: Nodes that are kept.
    """
    n = len(given.right) // 2
    first, second = (tuple(jnp.asarray(part[rows]) for part in given) for rows in _halves(n))
    seen = read(model, *first)
    right = np.asarray(seen.lead) > 0
    counted = right if right.any() else np.ones_like(right)
    mean = jax.tree.map(lambda x: x[counted].mean(axis=0), seen.nodes)
    effects = jax.tree.map(lambda x: x[counted].mean(axis=0), scores(model, *first, mean))
    lead = np.stack([seen.lead, read(model, *second).lead])
    ranked = [
        Nodes(*(np.abs(np.asarray(part[i])) for part in effects)) for i in range(len(METHODS))
    ]
    rng = np.random.default_rng(seed)
    ranked.append(Nodes(*(rng.random(part.shape) for part in ranked[0])))
    kept, empty = [], []
    for part in PARTS:
        whole = part == PARTS[0]
        empty.append(leads_with(model, *second, mean, first_of(ranked[0], 0, whole)))
        kept.append(
            [
                [leads_with(model, *second, mean, first_of(by, size, whole)) for size in sizes]
                for by in ranked
            ]
        )
    heads = [[first_of(by, size, False).heads.sum() for size in sizes] for by in ranked]
    return {
        "lead": lead,
        "kept": np.array(kept),
        "empty": np.array(empty),
        "heads_kept": np.array(heads, int),
    }


def first_of(ranked: Nodes, size: int, all_heads: bool) -> Nodes:
    """1 for the first nodes by size, 0 for all others.

    Args:
        ranked: Sizes of neurons and heads.
        size: Nodes that are kept; all where there are fewer.
        all_heads: Whether heads are all kept, and neurons alone are counted.
    """
    parts = [ranked.neurons] if all_heads else list(ranked)
    flat = np.concatenate([part.ravel() for part in parts])
    kept = np.zeros(flat.size, np.float32)
    kept[np.argsort(-flat, kind="stable")[:size]] = 1.0
    neurons = kept[: ranked.neurons.size].reshape(ranked.neurons.shape)
    heads = kept[ranked.neurons.size :] if not all_heads else np.ones(ranked.heads.size, np.float32)
    return Nodes(neurons, heads.reshape(ranked.heads.shape))


def _halves(n: int) -> tuple[slice, slice]:
    return slice(0, n), slice(n, 2 * n)
