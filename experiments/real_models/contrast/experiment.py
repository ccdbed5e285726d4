"""The difference of two texts in SmolLM2-135M: flows of many methods against interchange.

Pairs of sentences differ in what is meant, and so in what comes next. Methods share the difference
of the lead out over positions, heads and neurons. Truths are interchanges between both texts: exact
Shapley values of positions at a cut, and of one layer's heads and the stream past them; and single
heads and neurons. Circuits are chosen on other words. Pairs that the model gets right come first.
"""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Int

from circuitax.circuits.attribution import (
    outputs,
    part_coalitions,
    position_coalitions,
    shapley,
    with_neurons,
    with_replaced,
)
from circuitax.circuits.contrast import Routes, contrast
from circuitax.circuits.patching import each_head
from circuitax.config.ranges import Positive
from circuitax.kernel.keys import derive, host_generator
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as forward_run
from circuitax.kit.members import stack_named
from circuitax.kit.real_model import REAL, at_hand, check_real_name, open_weights, outside_inputs
from circuitax.lab.lab import Lab
from experiments.real_models.contrast import methods
from experiments.real_models.shared.pairs import TASKS, Pairs, drawn_pairs, most_pairs

PLACES = 5  # positions at the end that are kept; in every task both texts differ within them
# Dimensions of what is known of a task.
AXES = {
    "lead": ("half", "pair", "side"),
    "crossing": ("half", "pair", "stage", "place"),
    "whole": ("unit", "side"),
    "chosen_by": ("method", "head"),
    "route": ("unit", "read", "head"),
    "position_value": ("unit", "cut", "place"),
    "position_flow": ("unit", "method", "cut", "place"),
    "part_value": ("few", "layer", "part"),
    "part_flow": ("few", "method", "layer", "part"),
    "head_lead": ("few", "side", "head"),
    "head_flow": ("few", "method", "head"),
    "neuron_lead": ("few", "side", "neuron"),
    "neuron_flow": ("few", "method", "neuron"),
    "kept": ("unit", "side", "ranked_by", "size"),
}


@dataclass(frozen=True)
class Spec:
    """The model, its pairs of sentences, and how many of them each truth has.

    Attributes:
        weights: "smollm2", whose package may be absent, or "random" for a small model of ours.
        pairs: Pairs of each half of the words, in each task.
        exact: Pairs of each half with flows of all methods, and with positions and circuits.
        few: Of these, pairs with one layer's parts, and with single heads and neurons.
        cuts: Layers at whose entry positions are interchanged.
        layers: Layers of which heads, and the stream past them, are interchanged.
        neurons: Of each task, those with the largest flows.
        sizes: Heads and MLPs that are kept, from 0.
    """

    weights: str = REAL
    pairs: Positive = 50
    exact: Positive = 10
    few: Positive = 4
    cuts: Annotated[tuple[int, ...], "[1, inf)", "increasing"] = (3, 8, 13, 18, 22, 27)
    layers: Annotated[tuple[int, ...], "[0, inf)", "increasing"] = (16, 20, 23)
    neurons: Positive = 100
    sizes: Annotated[tuple[int, ...], "[0, inf)", "increasing"] = (0, 3, 10, 30, 100, 300)

    def __post_init__(self) -> None:
        check_real_name(self.weights)
        if not self.few <= self.exact <= self.pairs <= (most := most_pairs(TASKS)):
            raise ValueError(
                f"few={self.few}, exact={self.exact}, pairs={self.pairs} must rise, to {most} pairs"
            )

    def outside_inputs(self) -> dict[str, str]:
        """Checksum of the weights, so that others make another run."""
        return outside_inputs(self.weights)


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Share out the differences of all tasks, and interchange."""
    notes = at_hand(spec.weights, lab)
    if notes["missing"]:
        return xr.Dataset(attrs=notes)
    model = open_weights(spec.weights, derive(key, "weights"))
    rng = host_generator(derive(key, "sentences"))
    given = [drawn_pairs(spec.weights, task, spec.pairs, rng) for task in TASKS]
    found = [
        lab.stage(task.replace(" ", "-"), examine, model, pairs, spec)
        for task, pairs in lab.track(list(zip(TASKS, given, strict=True)), "tasks")
    ]
    arrays = {name: (("task", *dims), stack_named(found, name)) for name, dims in AXES.items()}
    coords = {
        "task": list(TASKS),
        "half": ["chosen on", "looked at"],
        "method": list(methods.METHODS),
        "passes": ("method", list(methods.PASSES.values())),
        "ranked_by": list(methods.RANKED),
        "read": list(Routes._fields),
        "place": np.arange(-PLACES, 0),
        "cut": list(spec.cuts),
        "layer": list(spec.layers),
        "size": list(spec.sizes),
    }
    return xr.Dataset(arrays, coords, notes)


def examine(model: Model, given: Pairs, spec: Spec) -> dict[str, np.ndarray]:
    """Flows and interchanges of one task."""
    texts, asked, few = jnp.asarray(given.tokens), jnp.asarray(given.right), spec.few
    by_half = [contrasts(model, texts[i], asked[i]) for i in (0, 1)]
    leads, crossing, routes = map(np.stack, zip(*by_half, strict=True))
    right = (leads[..., 0] > 0) & (leads[..., 1] < 0)
    order = np.argsort(~right, axis=-1, kind="stable")[:, : spec.exact]
    cuts, layers = list(spec.cuts), list(spec.layers)
    to_rank, found = (
        methods.all_flows(model, texts[i, order[i]], asked[i, order[i]], jnp.asarray(cuts))
        for i in (0, 1)
    )
    neurons = methods.largest_neurons(to_rank, spec.neurons)
    circuits = methods.circuits_of(to_rank, spec.sizes)
    differ = (given.tokens[:, :, 0] != given.tokens[:, :, 1]).any(axis=(0, 1))
    n_players = differ.size - int(differ.argmax())
    computed = ("position_value", "part_value", "head_lead", "neuron_lead", "kept")
    values: dict[str, list] = {name: [] for name in computed}
    for i, pair in enumerate(order[1]):
        words, to = texts[1, pair], asked[1, pair]
        first, other = both = [outputs(model, text) for text in words]
        at_cut = [
            position_coalitions(model, first.streams[cut], other.streams[cut], to, cut, n_players)
            for cut in cuts
        ]
        values["position_value"].append([last_places(shapley(np.asarray(v))) for v in at_cut])
        values["kept"].append(with_replaced(model, words, both, to, circuits))
        if i < few:
            at_layer = [part_coalitions(model, first, other, to, layer) for layer in layers]
            values["part_value"].append([shapley(np.asarray(v)) for v in at_layer])
            values["head_lead"].append(with_replaced(model, words, both, to, each_head(model)))
            values["neuron_lead"].append(with_neurons(model, words, both, to, jnp.asarray(neurons)))
    parts = np.concatenate([found.heads, found.past[..., None]], axis=-1)
    kept = np.reshape(values.pop("kept"), (spec.exact, 2, len(methods.RANKED), -1))
    return {name: np.stack(value) for name, value in values.items()} | {
        "lead": leads,
        "crossing": last_places(crossing),
        "whole": leads[1, order[1]],
        "chosen_by": np.mean(to_rank.heads, axis=0).reshape(len(methods.METHODS), -1),
        "route": routes[1, order[1]].reshape(spec.exact, len(Routes._fields), -1),
        "position_flow": last_places(np.asarray(found.cuts)[:, :, cuts, -n_players:]),
        "part_flow": parts[:few, :, layers],
        "head_flow": np.reshape(found.heads[:few], (few, len(methods.METHODS), -1)),
        "neuron_flow": found.units[:few, :, *neurons.T],
        "kept": kept,
    }


@jax.jit
def contrasts(
    model: Model, texts: Int[Array, "pair 2 n_ctx"], asked: Int[Array, "pair 2"]
) -> tuple[Array, ...]:
    """The lead at both texts of each pair, its flow by position, and how heads read it."""

    def one(given: tuple[Array, Array]) -> tuple[Array, ...]:
        (first, other), (token, minus) = (forward_run(model, x) for x in given[0]), given[1]
        found = contrast(first, other, token=token, minus=minus)
        ends = (run.logits[-1, token] - run.logits[-1, minus] for run in (first, other))
        return jnp.stack([*ends]), found.flow, jnp.stack(found.routes)

    return jax.lax.map(one, (texts, asked))


def last_places(x: np.ndarray) -> np.ndarray:
    """The last positions, missing ones as 0."""
    x = x[..., -PLACES:]
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(PLACES - x.shape[-1], 0)])
