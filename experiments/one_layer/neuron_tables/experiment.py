"""Neurons as a memory: which tokens each reads and writes, and whether its values come true.

An MLP is read as a memory of keys and values (Geva et al. 2021): a unit's keys are the tokens whose
embeddings it responds to most, its values the tokens whose logits it raises most. Both are read
from the weights of the full transformers of ``text_models`` and held against text on which they
were not trained.
"""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.detectors import mean_by_token, neuron_activations, values_come_true
from circuitax.circuits.weights.folding import fold_read
from circuitax.circuits.weights.heads import unembedding
from circuitax.circuits.weights.token_tables import NeuronTable, neuron_tables
from circuitax.config.ranges import Positive
from circuitax.data.text import TextSpec
from circuitax.kernel.model import Model
from circuitax.kernel.norm import norm_scale
from circuitax.kernel.run import run as run_model
from circuitax.kernel.weights import MLPWeights
from circuitax.kit.kept_models import KeptModels, kept_windows
from circuitax.kit.members import one_by_one
from circuitax.lab.lab import Lab

ENTRIES = 10  # tokens that count as a unit's keys and values
FIRING = 0.01  # of all positions: where a unit is most active it fires


@dataclass(frozen=True)
class Spec:
    """Measurements on the full transformers of ``text_models``.

    Attributes:
        task: The text that those models were trained on.
        windows: Held-out windows, at most those that were kept.
    """

    task: TextSpec = field(default_factory=TextSpec)
    windows: Positive = 512

    def upstream(self, name: str) -> dict[str, str | int]:
        """``text_models`` of the same text; see `circuitax.config.plan`."""
        return self.task.upstream()


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Tables of every unit before and after training, held against a held-out text."""
    upstream = lab.input("text_models")
    if "full" not in upstream.data.model.values:
        raise ValueError("full_seeds=0 of text_models must be at least 1: there are no neurons")
    windows = kept_windows(lab, "text_models", spec.windows)
    kept = KeptModels.of_input(lab, "text_models")
    read = jax.jit(of_member)
    before, after = (
        lab.stage(name, one_by_one, read, kept.members("full", step), windows)
        for name, step in (("before", kept.steps[0]), ("after", kept.steps[-1]))
    )
    units = ("member", "layer", "unit")
    data = xr.Dataset({name: (units, values) for name, values in after.items()})
    for name in ("fired", "everywhere"):
        data[f"{name}_at_init"] = (units, before[name])
    alive = upstream.data.alive.sel(model="full", drop=True).values[: data.sizes["member"]]
    data["alive"] = ("member", alive == 1)
    data["chance"] = ENTRIES / upstream.data.sizes["token"]
    return data.assign_coords(token=upstream.data.token)


def of_member(model: Model, windows: Array) -> dict[str, Array]:
    """Keys, values and firing of every unit of one model."""
    mlp = model.blocks.mlp
    if mlp is None:
        raise ValueError("full.d_mlp=None of text_models must be a number: there are no neurons")

    def one(text: Array) -> Array:
        return neuron_activations(run_model(model, text, outputs=True))[:, :-1]

    active = jax.lax.map(one, windows)  # [window, layer, position, unit]
    active = jnp.moveaxis(active, 1, 0).reshape(active.shape[1], -1, active.shape[-1])
    table = of_layers(model, mlp)
    values = jax.nn.one_hot(table.values.columns, model.d_vocab, dtype=bool).any(axis=-2)
    n_firing = max(1, round(FIRING * active.shape[1]))
    true = values_come_true(active, windows[:, 1:].ravel(), values, n_firing)
    by_token = mean_by_token(active, windows[:, :-1].ravel(), model.d_vocab)
    fires_on = jax.lax.top_k(by_token, ENTRIES)[1]
    shared = (table.keys.columns[..., :, None] == fires_on[..., None, :]).any(axis=-1)
    shares = {"fired": true.fired, "everywhere": true.everywhere}
    return shares | {"shared": shared.mean(axis=-1)}


def of_layers(model: Model, mlp: MLPWeights) -> NeuronTable:
    """`neuron_tables` of every layer, norms folded; keys are read from tokens that stand alone."""
    spec = model.spec
    tokens = model.W_E / norm_scale(model.W_E, spec.norm, spec.norm_eps)[:, None]
    W_U = unembedding(model)
    W_in, _ = fold_read(mlp.W_in, None, spec.norm, model.blocks.mlp_norm)
    layers = mlp._replace(W_in=W_in, b_in=None, b_out=None)
    return jax.lax.map(lambda layer: neuron_tables(layer, tokens, W_U, ENTRIES), layers)
