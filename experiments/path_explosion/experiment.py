"""The number of paths multiplies with depth, but the shortest paths explain most of the loss."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.expansion import expand
from circuitax.circuits.frozen import frozen_model
from circuitax.circuits.importance import cumulative, selection_losses, shapley
from circuitax.circuits.order_terms import layer_subset_streams, order_streams, over_subsets
from circuitax.circuits.paths import all_paths, n_paths
from circuitax.circuits.read_out import logits_of
from circuitax.data.in_context_bigrams import random_bigrams, sample_in_context_bigrams
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import (
    require_at_least,
    require_at_most,
    require_divides,
    require_in,
    require_readable,
)
from circuitax.kit.measured_training import measured_training
from circuitax.kit.members import each_member
from circuitax.kit.ragged import stack_named
from circuitax.lab.lab import Lab
from circuitax.models.extract_transformer import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.records.record import Record
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken
from circuitax.training.optim import OptimSpec
from experiments.path_explosion.path_ledger import rank, ranks

BUDGET_SECONDS = 75
PAPER_SECONDS = 22_000  # by its work against quick scale; not run


@dataclass(frozen=True)
class BigramSource:
    """Texts with a fixed bigram table, which weights can learn, and triggers, which they cannot."""

    d_vocab: int = 32
    length: int = 32
    batch: int = 16
    n_triggers: int = 8
    table_scale: float = 2.0
    table_seed: int = 0

    def __post_init__(self) -> None:
        require_at_least(self, 2, "d_vocab", "length")
        require_at_least(self, 1, "batch")
        require_in(self, "[1, d_vocab]", "n_triggers")
        require_at_least(self, 0.0, "table_scale")
        require_at_least(self, 0, "table_seed")

    def __call__(self, key: jax.Array) -> Array:
        """One batch, a pure function of the key."""
        table = random_bigrams(jax.random.key(self.table_seed), self.d_vocab, self.table_scale)
        return sample_in_context_bigrams(
            key, table, self.batch, self.length, n_triggers=self.n_triggers
        ).tokens


@dataclass(frozen=True)
class Spec:
    """One recipe for every depth.

    Attributes:
        model: Sizes; the number of layers is set by each arm.
        task: Texts to train on; those to measure on are drawn alike.
        optim: Optimizer.
        max_depth: Depths 1 to this many layers, at most 8.
        seeds: Members of each depth, each with its own initialisation and data.
        texts: Texts to measure on.
        ledgers: How many of them to rank paths on, for every member.
        chunk: Steps between two looks; must divide ``optim.steps``.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    task: BigramSource = field(default_factory=BigramSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    max_depth: int = 6
    seeds: int = 8
    texts: int = 32
    ledgers: int = 4
    chunk: int = 100

    def __post_init__(self) -> None:
        require_in(self, "[2, 8]", "max_depth")
        require_at_least(self, 1, "seeds", "texts", "ledgers")
        require_at_most(self, "texts", "ledgers")
        require_divides(self, "chunk", "optim.steps")
        require_readable(self.model, d_vocab=self.task.d_vocab, length=self.task.length)


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Train models of every depth, expand them into paths, and measure the loss of each order."""
    exam = replace(spec.task, batch=spec.texts)(derive(key, "evaluation"))
    examine = each_member(measure, exam)
    arms, divergences = {}, {}
    for depth in range(1, spec.max_depth + 1):
        sizes = replace(spec.model, n_layers=depth)
        plan = Plan(NextToken(Transformer(sizes), spec.task), spec.optim, spec.chunk)
        members = new_members(
            derive(key, f"{depth} layers"), spec.optim.learning_rate, jnp.zeros(spec.seeds)
        )
        trained = measured_training(
            lab,
            f"depth-{depth}",
            init(plan, members),
            advance(plan, members),
            steps=spec.optim.steps,
            every=spec.chunk,
            as_models=partial(model_from_params, spec=sizes),
        )
        models = trained.models
        found = lab.stage(f"terms-{depth}", examine, models)
        arms[depth] = found | {"alive": trained.alive}
        divergences[depth] = trained.divergence
    found = lab.stage("ledger", rank, models, trained.state.alive, exam[: spec.ledgers])
    last = {"top": ("place",), "top_path": ("place",), "all_sizes": ("rank",)}
    ledgers = {name: (("member", "text", *last.get(name, ())), x) for name, x in found.items()}
    data = xr.Dataset(
        _arrays(spec, arms) | ledgers,
        coords={"depth": list(arms), "rank": ranks(n_paths(models.n_layers, models.n_heads))},
    )
    return Record(data=data, notes={"divergence": divergences})


def measure(model: Model, texts: Array) -> dict[str, Array]:
    """Losses by order and by layer, sizes of the orders, and how well all paths close."""

    def one(text: Array) -> dict[str, Array]:
        found = run_model(model, text)
        frozen = frozen_model(found)
        orders = order_streams(frozen)
        losses = selection_losses(found, orders, cumulative(model.n_layers + 1))
        subsets = over_subsets(layer_subset_streams(frozen))
        by_subset = selection_losses(found, subsets, jnp.eye(len(subsets)))
        read = logits_of(orders, frozen.read_out)
        read = read - read.mean(axis=-1, keepdims=True)
        return {
            "loss": losses.mean(axis=1),
            "size": jnp.mean(read**2, axis=(1, 2)),
            "shapley": shapley(-by_subset.mean(axis=1)),
        }

    found = jax.tree.map(lambda x: x.mean(axis=0), jax.lax.map(one, texts))
    first = run_model(model, texts[0])
    closing = jnp.abs(expand(first).remainder).max() / jnp.abs(first.logits).max()
    return found | {"size": jnp.sqrt(found["size"]), "remainder": closing}


def _arrays(spec: Spec, arms: dict[int, dict[str, np.ndarray]]) -> dict[str, Any]:
    """Arrays over depth; a shallower model gets NaN for the orders and layers that it lacks."""

    def stack(name: str, axis: int | None = None) -> np.ndarray:
        return stack_named(arms.values(), name, axis)

    heads, orders = spec.model.n_heads, range(spec.max_depth + 1)
    formula = np.array([[n_paths(depth, heads, k) for k in orders] for depth in arms])
    lengths = [np.array([len(path) for path in all_paths(depth, heads)]) for depth in arms]
    listed = np.array([[(length == k).sum() for k in orders] for length in lengths])
    return {
        "count": (("depth", "order"), formula),
        "enumerated": (("depth", "order"), listed),
        "loss": (("depth", "member", "order"), stack("loss", 1)),
        "size": (("depth", "member", "order"), stack("size", 1)),
        "shapley": (("depth", "member", "layer"), stack("shapley", 1)),
        "remainder": (("depth", "member"), stack("remainder")),
        "alive": (("depth", "member"), stack("alive")),
        "uniform": ((), np.log(spec.model.d_vocab)),
    }
