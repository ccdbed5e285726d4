"""Neurons as a memory: which tokens each reads and writes, and whether its values come true."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.folding import fold_read
from circuitax.circuits.heads import unembedding
from circuitax.circuits.neurons import mean_by_token, neuron_activations, values_come_true
from circuitax.circuits.token_tables import NeuronTable, neuron_tables
from circuitax.kernel.model import Model
from circuitax.kernel.norm import norm_scale
from circuitax.kernel.run import run as run_model
from circuitax.kernel.weights import MLPWeights
from circuitax.lab.kept_weights import kept_weights
from circuitax.lab.lab import Lab
from circuitax.models.plain import from_plain
from circuitax.records.claims import Claim, at_least, between
from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.record import Record

BUDGET_SECONDS = 20
PAPER_SECONDS = 60  # by its work against quick scale; not run
requires = ("text_models",)

WHERE = "S2, feed-forward layers (Geva et al. 2021); S1 section 5"
ALL = "all seeds that stayed finite, all units of all layers; seeds are the replicates"
PILOT = "in a pilot on other seeds"
CLAIMS = (
    Claim("neuron-lift", WHERE, "What a unit writes comes true where it fires: its ten most raised "
          "tokens among the next ones there, over everywhere, ratio of the mean shares",
          "neuron-lift", at_least(1.5), f"1 by chance; 2.9 and 3.3 {PILOT}", "shape", ALL, 3),
    Claim("neuron-lift-null", WHERE, "... and does not before training", "neuron-lift-null",
          between(0.8, 1.2), f"1 by chance; within 0.01 {PILOT}", "number", ALL, 3),
    Claim("neuron-values-rise", WHERE, "Share of units whose values come next more often where "
          "they fire, after training minus before", "neuron-values-rise", at_least(0.2),
          f"not 0.5 by chance, since shares are skewed; 0.4 and 0.5 {PILOT}", "shape", ALL, 3),
    Claim("neuron-keys", WHERE, "Keys read from weights are what a unit fires on: tokens that its "
          "ten keys in the first layer share with the ten it is most active on, over chance",
          "neuron-keys", at_least(2), f"1 by chance; 11 and 35 {PILOT}, and as much before "
          "training: a fact about the reading, not about learning", "shape", ALL, 3),
)  # fmt: skip


@dataclass(frozen=True)
class Spec:
    """What is read from the full transformers of ``text_models``.

    Attributes:
        windows: Held-out windows, at most those that were kept.
        entries: Tokens that count as a unit's keys and values, and are listed.
        firing: A unit fires at this share of all positions, where it is most active.
        neurons: Units listed in each layer, those that move the logits most.
    """

    windows: int = 512
    entries: int = 10
    firing: float = 0.01
    neurons: int = 8

    def __post_init__(self) -> None:
        for name in ("windows", "entries", "neurons"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if not 0 < self.firing <= 0.5:
            raise ValueError(f"firing={self.firing} must be above 0 and at most 0.5")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Tables of every unit before and after training, held against a text that none has seen."""
    upstream = lab.input("text_models")
    if "full" not in upstream.data.model.values:
        raise ValueError("full_seeds=0 of text_models must be at least 1: there are no neurons")
    model_spec = from_plain(upstream.notes["full"])
    windows = lab.load_arrays("held-out", source="text_models")["windows"]
    windows = jnp.asarray(windows[: spec.windows])
    steps = upstream.notes["steps_kept"]
    read = jax.jit(partial(of_member, settings=spec))
    found = []
    for name, step in (("before", steps[0]), ("after", steps[-1])):
        models = kept_weights(lab, "text_models", f"full-step-{step}", model_spec)
        members = [models.member(i) for i in range(models.member_axes[0])]
        found.append(lab.stage(name, _each, read, members, windows))
    data = _dataset(*found)
    alive = upstream.data.alive.sel(model="full", drop=True).values[: data.sizes["member"]]
    data["alive"] = ("member", alive == 1)
    data["chance"] = spec.entries / upstream.data.sizes["token"]
    data = data.assign_coords(token=upstream.data.token)
    return Record(data=data, measured=estimates(data))


def of_member(model: Model, windows: Array, settings: Spec) -> dict[str, Array]:
    """Keys, values and firing of every unit of one model; the heaviest units by name."""
    mlp = model.blocks.mlp
    if mlp is None:
        raise ValueError("full.d_mlp=None of text_models must be a number: there are no neurons")
    d_vocab, k = model.d_vocab, min(settings.entries, model.d_vocab)

    def one(text: Array) -> Array:
        return neuron_activations(run_model(model, text, outputs=True))[:, :-1]

    active = jax.lax.map(one, windows)  # [window, layer, position, unit]
    active = jnp.moveaxis(active, 1, 0).reshape(active.shape[1], -1, active.shape[-1])
    table = of_layers(model, mlp, k)
    values = jax.nn.one_hot(table.values.columns, d_vocab, dtype=bool).any(axis=-2)
    n_firing = max(1, round(settings.firing * active.shape[1]))
    true = values_come_true(active, windows[:, 1:].ravel(), values, n_firing)
    by_token = mean_by_token(active, windows[:, :-1].ravel(), d_vocab)
    fires_on = jax.lax.top_k(by_token, k)[1]
    shared = (table.keys.columns[..., :, None] == fires_on[..., None, :]).any(axis=-1)
    size = jnp.linalg.norm(mlp.W_out @ unembedding(model), axis=-1)
    moved = active.std(axis=1) * size / jnp.sqrt(d_vocab)
    heaviest = jax.lax.top_k(moved, min(settings.neurons, moved.shape[1]))[1]
    listed = {"keys": table.keys.columns, "fires_on": fires_on, "values": table.values.columns}
    return {
        "fired": true.fired,
        "everywhere": true.everywhere,
        "shared": shared.mean(axis=-1),
        "moved": moved,
        "heaviest": heaviest,
    } | {
        f"listed_{name}": jnp.take_along_axis(tokens, heaviest[..., None], axis=1)
        for name, tokens in listed.items()
    }


def of_layers(model: Model, mlp: MLPWeights, k: int) -> NeuronTable:
    """`neuron_tables` of every layer, norms folded; keys are read from tokens that stand alone."""
    spec = model.spec
    tokens = model.W_E / norm_scale(model.W_E, spec.norm, spec.norm_eps)[:, None]
    W_U = unembedding(model)
    W_in, _ = fold_read(mlp.W_in, None, spec.norm, model.blocks.mlp_norm)
    layers = mlp._replace(W_in=W_in, b_in=None, b_out=None)
    return jax.lax.map(lambda layer: neuron_tables(layer, tokens, W_U, k), layers)


def estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """Means over seeds, all units of all layers alike."""
    alive = data.isel(member=np.flatnonzero(data.alive.values))
    units = ("layer", "unit")
    found, truths = {}, []
    for when, end in (("", ""), ("_at_init", "-null")):
        fired, everywhere = alive[f"fired{when}"], alive[f"everywhere{when}"]
        # A tie says nothing either way.
        truer = (fired > everywhere) + 0.5 * (fired == everywhere)
        found[f"neuron-values{end}"] = mean_estimate(truer.mean(units))
        lift = fired.mean(units) / everywhere.mean(units)
        found[f"neuron-lift{end}"] = mean_estimate(lift)
        for layer, name in enumerate(("", *(f"-{i}" for i in range(1, data.sizes["layer"])))):
            shared = alive[f"shared{when}"].isel(layer=layer).mean("unit") / alive.chance
            found[f"neuron-keys{name}{end}"] = mean_estimate(shared)
        truths.append(truer.mean(units))
    return found | {"neuron-values-rise": mean_estimate(truths[0] - truths[1])}


def _each(
    read: Callable[[Model, Array], dict[str, Array]], members: list[Model], windows: Array
) -> dict[str, np.ndarray]:
    found = [read(model, windows) for model in members]
    return {name: np.stack([np.asarray(f[name]) for f in found]) for name in found[0]}


def _dataset(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> xr.Dataset:
    units, listed = ("member", "layer", "unit"), ("member", "layer", "place")
    measures = ("fired", "everywhere", "shared", "moved")
    return xr.Dataset(
        {name: (units, after[name]) for name in measures}
        | {f"{name}_at_init": (units, before[name]) for name in measures}
        | {"heaviest": (listed, after["heaviest"])}
        | {name: ((*listed, "entry"), after[name])
           for name in ("listed_keys", "listed_fires_on", "listed_values")}
    )  # fmt: skip
