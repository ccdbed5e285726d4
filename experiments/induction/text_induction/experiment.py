"""An induction head on real text: what it takes, what it is worth there, and what it costs."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.losses import repeated_pairs
from circuitax.circuits.patching import ablated_metrics, each_component
from circuitax.config.ranges import Positive, Share
from circuitax.data.synthetic import RepeatedSource
from circuitax.data.text import (
    RepeatedWindowSource,
    TextSpec,
    WindowSource,
    device_tokens,
    open_text,
    spaced_windows,
)
from circuitax.kernel.forward import behind_start, forward, next_token_losses
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec, to_plain
from circuitax.kit.kept_models import notes_of_kept
from circuitax.kit.measured_training import Trained, joined, measured_training
from circuitax.kit.members import each_member, file_name_of, stack_named
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken, Source
from circuitax.training.optim import OptimSpec
from experiments.induction.shared.window_readings import induction_on_text, pair_losses

# Layers, and whether training begins with windows that repeat themselves.
ARMS = {
    "2 layers": (2, False),
    "2 layers, primed": (2, True),
    "1 layer, primed": (1, True),
}


@dataclass(frozen=True)
class Spec:
    """One recipe and one number of tokens for every arm.

    Attributes:
        task: Which text.
        model: Sizes; the number of layers is set by each arm.
        optim: Optimizer, over the whole of training.
        batch: Windows a step.
        seeds: Members of each arm, each with its own initialisation and data.
        primer: Steps on windows that repeat themselves, before plain text, in the primed arms.
        min_period: Shortest repeat of the primer.
        max_period: Longest one.
        repeated_share: Of the windows after the primer, or of all, those that repeat too; 0 for
            plain text, which the rows are about.
        measure_every: Steps between two measurements.
        windows: Windows of held-out text to measure on.
        texts: Random repeated texts for the head scores.
    """

    task: TextSpec = field(default_factory=TextSpec)
    model: TransformerSpec = field(default_factory=TransformerSpec)
    optim: OptimSpec = field(default_factory=OptimSpec)
    batch: Positive = 32
    seeds: Positive = 8
    primer: Annotated[int, "[1, optim.steps)"] = 400
    min_period: Annotated[int, "[1, max_period]"] = 8
    max_period: Annotated[int, "[1, model.n_ctx)", "[1, model.d_vocab]"] = 32
    repeated_share: Share = 0.0
    measure_every: Annotated[int, "divides primer", "divides optim.steps"] = 50
    windows: Positive = 256
    texts: Positive = 32

    def __post_init__(self) -> None:
        if self.model.d_vocab != self.task.d_vocab or self.model.n_ctx is None:
            raise ValueError(
                f"model.d_vocab={self.model.d_vocab} must be task.d_vocab={self.task.d_vocab}, "
                f"and model.n_ctx={self.model.n_ctx} a number"
            )


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train each arm on equally many tokens, with and without a primer; then ablate every head."""
    text, length = open_text(spec.task), spec.model.n_ctx or 0
    plain = WindowSource(spec.batch, length, device_tokens(text.tokens.train))
    primer = RepeatedWindowSource(plain, spec.min_period, spec.max_period)
    after = replace(primer, share=spec.repeated_share) if spec.repeated_share else plain
    repeated = RepeatedSource(
        spec.texts, length, spec.model.d_vocab, spec.min_period, spec.max_period, distinct=True
    )
    held_out, exam = (
        behind_start(texts, spec.model.start_token)
        for texts in (
            jnp.asarray(spaced_windows(text.tokens.validation, spec.windows, length)),
            repeated(derive(key, "repeats")),
        )
    )
    found, divergences, models = {}, {}, {}
    for arm, (n_layers, _) in ARMS.items():
        sizes = models[file_name_of(arm)] = replace(spec.model, n_layers=n_layers)
        trained = _train(spec, arm, sizes, primer, after, (held_out, exam), derive(key, arm), lab)
        remove = jax.vmap(jax.jit(ablated), (0, None))
        lost = lab.stage(f"{file_name_of(arm)}-ablated", remove, trained.models, held_out)
        found[arm] = trained.curves | lost | {"alive": trained.alive}
        divergences[arm] = trained.divergence
    lab.save_arrays("held-out", {"windows": held_out})
    data = _dataset(spec, found, np.asarray(repeated_pairs(held_out)))
    notes = {
        "text": text.about(),
        "divergence": divergences,
        "model": to_plain(spec.model),
        "repeated_share": spec.repeated_share,
    }
    return data.assign_attrs(notes | notes_of_kept(models, (0, spec.optim.steps)))


def _train(
    spec: Spec,
    arm: str,
    sizes: TransformerSpec,
    primer: Source,
    after: Source,
    texts: tuple[Array, Array],
    key: jax.Array,
    lab: Lab,
) -> Trained:
    """Train all members of one arm: on the primer first if it is a primed one, then on text."""
    members = new_members(key, spec.optim.learning_rate, jnp.zeros(spec.seeds))
    name, primed = file_name_of(arm), ARMS[arm][1]
    plans = [
        Plan(NextToken(Transformer(sizes), source), spec.optim, spec.measure_every, mesh=lab.mesh)
        for source in (primer, after)
    ]
    train = partial(
        measured_training,
        lab,
        every=spec.measure_every,
        measure=each_member(induction_on_text, *texts),
        as_models=partial(model_from_params, spec=sizes),
        keep_as=name,
    )
    state, steps = init(plans[1], members), spec.optim.steps
    if not primed:
        return train(
            f"{name}-text", state, advance(plans[1], members), steps=steps, keep_at=(0, steps)
        )
    first = train(
        f"{name}-primer", state, advance(plans[0], members), steps=spec.primer, keep_at=(0,)
    )
    second = train(
        f"{name}-text",
        first.state,
        advance(plans[1], members),
        steps=steps - spec.primer,
        at_start=False,
        keep_at=(steps,),
    )
    return joined(first, second)


def ablated(model: Model, windows: Array) -> dict[str, Array]:
    """Losses without each head in turn, patterns kept as they were."""
    cells = each_component(model)

    def one(text: Array) -> Array:
        _, trace = forward(model, text)
        return ablated_metrics(
            model, text, cells, lambda z: next_token_losses(z, text), preserved=trace
        )

    losses = jnp.moveaxis(jax.lax.map(one, windows), 1, 0)
    each = jax.vmap(partial(pair_losses, seen=repeated_pairs(windows)))(losses)
    shape = cells.heads.shape[1:]
    return {f"ablated_{name}": values.reshape(shape) for name, values in each.items()}


def _dataset(spec: Spec, found: dict[str, dict[str, np.ndarray]], seen: np.ndarray) -> xr.Dataset:
    # Arms with fewer layers get NaN for the missing ones.
    stack = partial(stack_named, found.values())
    over, heads = ("arm", "step", "member"), ("layer", "head")
    steps = np.arange(0, spec.optim.steps + 1, spec.measure_every)
    losses = ("loss", "loss_repeated", "loss_new")
    curves = {name: (over, stack(name)) for name in losses}
    scores = {name: ((*over, *heads), stack(name, 2)) for name in ("prefix", "previous")}
    without = {
        f"ablated_{name}": (("arm", "member", *heads), stack(f"ablated_{name}", 1))
        for name in losses
    }
    return xr.Dataset(
        {
            **curves,
            **scores,
            **without,
            "alive": (("arm", "member"), stack("alive")),
            "chance": float(found["2 layers, primed"]["chance"][0, 0]),
            "share_repeated": float(seen.mean()),
            "primer": spec.primer,
        },
        coords={
            "arm": list(found),
            "step": steps,
            "tokens": ("step", steps * spec.batch * ((spec.model.n_ctx or 1) - 1)),
        },
    )
