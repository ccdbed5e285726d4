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
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.ledger.host_model import one_thread
from circuitax.config.ranges import Positive
from circuitax.data.text import TextSpec, device_tokens, draw_windows, open_text
from circuitax.kernel.keys import at_index, derive
from circuitax.kernel.mlp import Activation
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.members import drawn_by_each, each_with_own, member_of
from circuitax.lab.lab import Lab
from circuitax.models.transformer import Transformer
from circuitax.training.language import text_losses
from circuitax.training.optim import OptimSpec
from experiments.one_layer.bilinear.spectra import kept_losses
from experiments.one_layer.shared.text_training import text_arm

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
        kept: Eigenvectors kept of each direction; rows are about four.
        draws: Draws of random eigenvectors.
    """

    task: TextSpec = field(default_factory=TextSpec)
    model: TransformerSpec = field(default_factory=TransformerSpec)
    optim: OptimSpec = field(default_factory=OptimSpec)
    rates: Annotated[tuple[float, ...], "(0, inf)"] = (2e-2, 2e-2, 2e-2)
    batch: Positive = 32
    seeds: Positive = 8
    measure_every: Annotated[int, "divides optim.steps"] = 50
    windows: Positive = 32
    kept: Annotated[tuple[int, ...], "[1, model.d_model]", "increasing"] = (1, 2, 4, 8)
    draws: Positive = 20

    def __post_init__(self) -> None:
        if len(self.rates) != len(KINDS):
            raise ValueError(f"rates={self.rates} must hold one for each of {KINDS}")
        if 4 not in self.kept:
            raise ValueError(f"kept={self.kept} must hold 4")
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
    measure = each_with_own(lambda model, own: {"loss": text_losses(model, own).mean()}, windows)
    trained, found = {}, []
    for name, kind, sizes in models(spec):
        trained[name] = text_arm(
            lab,
            name,
            # Of one depth all kinds see the same windows in the same order.
            derive(key, f"layers-{sizes.n_layers}"),
            Transformer(sizes),
            replace(spec.optim, learning_rate=spec.rates[KINDS.index(kind)]),
            text.tokens.train,
            batch=spec.batch,
            length=length,
            seeds=spec.seeds,
            every=spec.measure_every,
            measure=measure,
        )
        if kind == KINDS[0]:
            with one_thread():
                ends = trained[name].models
                found.append(lab.stage(f"read-{name}", _read, spec, ends, windows, key))
    data = {name: (dims, np.stack([f[name] for f in found])) for name, dims in READ.items()}
    curves = np.stack([one.curves["loss"] for one in trained.values()], axis=1)
    data["loss"] = (("step", "model", "seed"), curves)
    data["alive"] = (("model", "seed"), np.stack([one.alive for one in trained.values()]))
    coords = {
        "step": next(iter(trained.values())).steps,
        "model": list(trained),
        "depth": list(range(1, len(found) + 1)),
        "kept": list(spec.kept),
    }
    notes = {
        "text": text.about(),
        "tokens": spec.optim.steps * spec.batch * (length - 1),
        "divergence": {name: one.divergence for name, one in trained.items()},
        "d_model": spec.model.d_model,
    }
    return xr.Dataset(data, coords, notes)


# Dimensions of what `_read` gives of all depths.
READ = {
    "whole_loss": ("depth", "seed"),
    "removed_loss": ("depth", "seed"),
    "kept_loss": ("depth", "seed", "kept"),
    "random_loss": ("depth", "seed", "draw"),
}


def _read(spec: Spec, ends: Model, windows: Array, key: jax.Array) -> dict[str, np.ndarray]:
    """Losses of one depth with all, none and some eigenvectors, seeds in front."""
    losses = jax.jit(partial(kept_losses, kept=spec.kept))
    rows: dict[str, list[np.ndarray]] = {name: [] for name in READ}
    for seed in range(spec.seeds):
        keys = jax.random.split(at_index(derive(key, "draws"), seed), spec.draws)
        found = losses(member_of(ends, seed), windows[seed], keys)
        for name, value in found._asdict().items():
            rows[f"{name}_loss"].append(np.asarray(value))
    return {name: np.stack(values) for name, values in rows.items()}
