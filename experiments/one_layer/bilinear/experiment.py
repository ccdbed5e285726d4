"""Bilinear MLPs in text models of one and two layers, beside others of equal parameters.

A gated MLP without activation, ``(x W_gate ∘ x W_in) W_out``, is a third-order tensor, so that what
it does is read from its weights: the interaction matrix of each logit and its eigenvectors. Models
have no norms, and nothing is held. Source: Pearce et al. 2024.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.ledger.host_model import one_thread
from circuitax.config.ranges import Positive
from circuitax.data.text import Text, TextSpec, device_tokens, draw_windows, open_text
from circuitax.kernel.keys import at_index, derive
from circuitax.kernel.mlp import Activation
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.measured_training import Trained, measured_training
from circuitax.kit.members import drawn_by_each, each_with_own, member_of
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.training.language import text_losses, train_on_text
from circuitax.training.optim import OptimSpec
from experiments.one_layer.bilinear.spectra import (
    kept_losses,
    part_losses,
    permuted_energies,
    spectral_readings,
)

KINDS = ("bilinear", "gelu", "linear")


@dataclass(frozen=True)
class Spec:
    """Three kinds of models, how they are trained, and what is read of the bilinear ones.

    Attributes:
        task: Which text.
        model: The bilinear model; its ``n_layers`` is the deepest, and all from 1 are trained. The
            others have MLPs without gate, half as wide again, which makes as many parameters.
        optim: Optimizer; its rate is not used.
        rates: Peak rate of each kind: bilinear, GELU, and linear without gate.
        batch: Windows a step.
        seeds: Members of each model, each with its own initialisation, data and held-out windows.
        measure_every: Steps between two measurements.
        windows: Held-out windows of each seed.
        directions: Output directions: the logits of this many most frequent tokens.
        kept: Eigenvectors kept of each direction; rows are about two and four.
        draws: Draws of random eigenvectors, and of permuted hidden units.
    """

    task: TextSpec = field(default_factory=TextSpec)
    model: TransformerSpec = field(default_factory=TransformerSpec)
    optim: OptimSpec = field(default_factory=OptimSpec)
    rates: Annotated[tuple[float, ...], "(0, inf)"] = (2e-2, 2e-2, 2e-2)
    batch: Positive = 32
    seeds: Positive = 8
    measure_every: Annotated[int, "divides optim.steps"] = 50
    windows: Positive = 32
    directions: Annotated[int, "[2, task.d_vocab]"] = 128
    kept: Annotated[tuple[int, ...], "[1, model.d_model]", "increasing"] = (1, 2, 4, 8)
    draws: Positive = 20

    def __post_init__(self) -> None:
        if len(self.rates) != len(KINDS):
            raise ValueError(f"rates={self.rates} must hold one for each of {KINDS}")
        if not {2, 4} <= set(self.kept):
            raise ValueError(f"kept={self.kept} must hold 2 and 4")
        if self.model.d_vocab != self.task.d_vocab:
            raise ValueError(f"model.d_vocab={self.model.d_vocab} must be that of task")
        model = self.model
        wanted = {"gated": True, "activation": Activation.linear, "norm": Norm.none}
        wanted |= {"biases": False, "parallel": False, "start_token": None}
        for name, value in wanted.items():
            if (found := getattr(model, name)) != value:
                raise ValueError(f"model.{name}={found} must be {value} in a bilinear model")
        if (model.d_mlp or 1) % 2:
            raise ValueError(f"model.d_mlp={model.d_mlp} must be even: others have 3/2 of it")


def models(spec: Spec) -> Iterator[tuple[str, str, TransformerSpec]]:
    """Name, kind and sizes of every model; those of one depth have equally many parameters."""
    for n_layers in range(1, spec.model.n_layers + 1):
        gated = replace(spec.model, n_layers=n_layers)
        linear = replace(gated, gated=False, d_mlp=3 * (gated.d_mlp or 0) // 2)
        gelu = replace(linear, activation=Activation.gelu)
        for kind, sizes in zip(KINDS, (gated, gelu, linear), strict=True):
            yield f"{kind}-{n_layers}", kind, sizes


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train every model, then read the bilinear ones from their weights and from held-out text."""
    text, length = open_text(spec.task), spec.model.n_ctx or 0
    held_out = device_tokens(text.tokens.validation)
    windows = drawn_by_each(
        lambda own: draw_windows(own, held_out, spec.windows, length),
        derive(key, "windows"),
        spec.seeds,
    )
    counts = np.bincount(text.tokens.train, minlength=spec.task.d_vocab)
    directions = np.argsort(-counts, kind="stable")[: spec.directions]
    trained, found = {}, []
    for name, kind, sizes in models(spec):
        trained[name], start = _train(spec, name, kind, sizes, text, windows, key, lab)
        if kind == KINDS[0]:
            given = (spec, trained[name].models, start, windows, jnp.asarray(directions), key)
            with one_thread():
                found.append(lab.stage(f"read-{name}", _read, *given))
                if sizes.n_layers == 1:
                    parts = lab.stage("parts", _parts, *given)
    deep = [f"{layer} of {n}" for n in range(1, len(found) + 1) for layer in range(n)]
    data = {name: (dims, np.concatenate([f[name] for f in found])) for name, dims in READ.items()}
    data |= {name: (dims, parts[name]) for name, dims in PARTS.items()}
    curves = np.stack([one.curves["loss"] for one in trained.values()], axis=1)
    data["loss"] = (("step", "model", "seed"), curves)
    data["alive"] = (("model", "seed"), np.stack([one.alive for one in trained.values()]))
    coords = {
        "step": next(iter(trained.values())).steps,
        "model": list(trained),
        "mlp": deep,
        "depth": list(range(1, len(found) + 1)),
        "kept": list(spec.kept),
        "direction": directions,
    }
    notes = {
        "text": text.about(),
        "tokens": spec.optim.steps * spec.batch * (length - 1),
        "divergence": {name: one.divergence for name, one in trained.items()},
        "d_model": spec.model.d_model,
    }
    return xr.Dataset(data, coords, notes)


# Dimensions of what `_read` and `_parts` give.
PLACES = ("mlp", "seed", "direction", "place")
RANKS = ("mlp", "seed", "direction", "kept")
READ = {
    "energy": PLACES,
    "energy_at_init": PLACES,
    "correlation": RANKS,
    "correlation_at_init": RANKS,
    "whole_loss": ("depth", "seed"),
    "removed_loss": ("depth", "seed"),
    "kept_loss": ("depth", "seed", "kept"),
    "random_loss": ("depth", "seed", "draw"),
}
PARTS = {
    "energy_permuted": ("seed", "draw"),
    "part_loss": ("seed", "part"),
    "part_loss_at_init": ("seed", "part"),
}


def _train(
    spec: Spec,
    name: str,
    kind: str,
    sizes: TransformerSpec,
    text: Text,
    windows: Array,
    key: jax.Array,
    lab: Lab,
) -> tuple[Trained, Model]:
    """One model trained, and its weights at the start."""
    optim = replace(spec.optim, learning_rate=spec.rates[KINDS.index(kind)])
    state, train = train_on_text(
        # Of one depth all kinds see the same windows in the same order.
        derive(key, f"layers-{sizes.n_layers}"),
        Transformer(sizes),
        optim,
        text.tokens.train,
        batch=spec.batch,
        length=spec.model.n_ctx or 0,
        seeds=spec.seeds,
        chunk=spec.measure_every,
        mesh=lab.mesh,
    )
    as_models = partial(model_from_params, spec=sizes)
    start = jax.tree.map(np.asarray, as_models(state.params))

    def loss(model: Model, own: Array) -> Array:
        return text_losses(model, own).mean()

    measure = each_with_own(loss, windows)
    trained = measured_training(
        lab,
        name,
        state,
        train,
        steps=spec.optim.steps,
        every=spec.measure_every,
        measure=lambda members: {"loss": measure(members)},
        as_models=as_models,
    )
    return trained, start


def _read(
    spec: Spec, ends: Model, starts: Model, windows: Array, directions: Array, key: jax.Array
) -> dict[str, np.ndarray]:
    """Spectra, correlations and losses of one depth; layers or the depth in front of each array."""
    read = jax.jit(partial(spectral_readings, kept=spec.kept))
    losses = jax.jit(partial(kept_losses, kept=spec.kept))
    rows: dict[str, list[np.ndarray]] = {name: [] for name in READ}
    for seed in range(spec.seeds):
        end, start, own = member_of(ends, seed), member_of(starts, seed), windows[seed]
        after, before = read(end, own, directions), read(start, own, directions)
        rows["energy"].append(np.asarray(after.energy))
        rows["correlation"].append(np.asarray(after.correlation))
        rows["energy_at_init"].append(np.asarray(before.energy))
        rows["correlation_at_init"].append(np.asarray(before.correlation))
        found = losses(end, own, _draws(spec, key, seed))
        for name, value in found._asdict().items():
            rows[f"{name}_loss"].append(np.asarray(value)[None])
    return {name: np.stack(values, axis=1) for name, values in rows.items()}


def _parts(
    spec: Spec, ends: Model, starts: Model, windows: Array, directions: Array, key: jax.Array
) -> dict[str, np.ndarray]:
    """One-layer models: permuted units, and what parts of the MLP are worth, by seed."""
    parts = jax.jit(part_losses)
    rows: dict[str, list[np.ndarray]] = {name: [] for name in PARTS}
    for seed in range(spec.seeds):
        end, start, own = member_of(ends, seed), member_of(starts, seed), windows[seed]
        draws = permuted_energies(end, directions, _draws(spec, key, seed))
        rows["energy_permuted"].append(draws)
        rows["part_loss"].append(np.asarray(parts(end, own)))
        rows["part_loss_at_init"].append(np.asarray(parts(start, own)))
    return {name: np.stack(values) for name, values in rows.items()}


def _draws(spec: Spec, key: jax.Array, seed: int) -> Array:
    """Keys of the random choices of one seed."""
    return jax.random.split(at_index(derive(key, "draws"), seed), spec.draws)
