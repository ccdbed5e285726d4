"""Induction heads of models of several depths and widths, on repeated random tokens.

The induction-heads paper compares models of many sizes. Here are several widths of two layers, more
depths of one width, and models with MLPs. One layer, which has no phase change, is the control.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.detectors import head_copying, induction_scores
from circuitax.circuits.losses import steepest_stretch
from circuitax.circuits.patching import ablation_effects
from circuitax.circuits.weights.heads import token_ov
from circuitax.circuits.weights.spectra import composed_keys, copying_score, same_matching
from circuitax.config.ranges import Positive
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as forward_run
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.spectrum import trace
from circuitax.kit.measured_training import Trained, language_arm
from circuitax.kit.members import drawn_by_each, each_with_own, stack_named
from circuitax.lab.lab import Lab
from circuitax.training.language import text_losses
from circuitax.training.optim import OptimSpec
from experiments.induction.shared.two_layers import in_context, require_readable

# Units of an MLP for each dimension of the stream.
MLP_WIDTH = 4
HEADS = ("prefix", "copying", "eigenvalues", "matching", "qk_trace", "before_after")
CURVES = ("loss", "in_context", "on_repeat", "on_break")


@dataclass(frozen=True)
class Spec:
    """One recipe for all sizes.

    Attributes:
        model: Sizes; width and layers are set by each arm.
        widths: d_model of the arms of two layers, two or more, each a multiple of the heads.
        depths: Layers of the arms of the second width, above two.
        mlp_depths: Layers of the arms with MLPs, of the second width; where there are any, models
            of one layer with MLPs are their control.
        task: Texts to train on; those to measure on have the same sizes and distinct symbols.
        optim: Optimizer.
        seeds: Members of each arm, each with its own initialisation and data.
        measure_every: Steps between two measurements.
        texts: Texts to measure on; each seed of each arm has its own.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    widths: Annotated[tuple[int, ...], "[1, inf)", "increasing"] = (16, 32, 64)
    depths: Annotated[tuple[int, ...], "[3, inf)"] = (3, 4)
    mlp_depths: Annotated[tuple[int, ...], "[1, inf)"] = ()
    task: RepeatedSource = field(default_factory=RepeatedSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    seeds: Positive = 8
    measure_every: Annotated[int, "divides optim.steps"] = 20
    texts: Positive = 32

    def __post_init__(self) -> None:
        require_readable(self.model, self.task)
        if len(self.widths) < 2:
            raise ValueError(f"widths={self.widths} must be two or more: depths take the second")
        if self.task.max_period >= self.task.d_vocab:
            raise ValueError(
                f"task.max_period={self.task.max_period} must be below d_vocab="
                f"{self.task.d_vocab}: a symbol must be left that breaks the repeat"
            )

    def arms(self) -> dict[str, TransformerSpec]:
        """Sizes of each arm, by name."""
        usual = self.widths[1]
        mlp_depths = {1, *self.mlp_depths} if self.mlp_depths else ()
        shapes = [
            (1, usual, None),
            *((2, width, None) for width in self.widths),
            *((depth, usual, None) for depth in self.depths),
            *((depth, usual, MLP_WIDTH * usual) for depth in sorted(mlp_depths)),
        ]
        return {
            f"{n} layer{'s' * (n > 1)}, {width} wide{', MLPs' if mlp else ''}": replace(
                self.model, n_layers=n, d_model=width, d_mlp=mlp
            )
            for n, width, mlp in shapes
        }


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train every size, follow its curves, and read its heads at the end."""
    source = replace(spec.task, batch=spec.texts, distinct=True)
    found, divergences = {}, {}
    for arm, sizes in spec.arms().items():
        name = f"layers-{sizes.n_layers}-width-{sizes.d_model}" + "-mlp" * (sizes.d_mlp is not None)
        # Rows pool seeds of several arms, so that no two of them may share an exam either.
        exams = drawn_by_each(source, derive(derive(key, arm), "evaluation"), spec.seeds)
        trained = language_arm(
            lab,
            name,
            derive(key, arm),
            sizes,
            spec.task,
            spec.optim,
            seeds=spec.seeds,
            every=spec.measure_every,
            measure=each_with_own(partial(measure, task=spec.task), exams),
        )
        change = _change(spec, trained)
        read = each_with_own(read_heads, change.pop("token_change"), exams)
        at_end = lab.stage(f"{name}-heads", read, trained.models)
        found[arm] = trained.curves | change | dict(at_end) | {"alive": trained.alive}
        divergences[arm] = trained.divergence
    # One array of all arms; those with fewer layers get NaN for the layers they lack.
    stack, each_arm = partial(stack_named, found.values()), ("arm", "member")
    return xr.Dataset(
        {name: (("arm", "step", "member"), stack(name)) for name in CURVES}
        | {name: ((*each_arm, "layer", "head"), stack(name, -2)) for name in HEADS}
        | {name: (each_arm, stack(name)) for name in ("jump_start", "jump_end", "alive")},
        coords={
            "arm": list(found),
            "step": trained.steps,
            "n_layers": ("arm", [sizes.n_layers for sizes in spec.arms().values()]),
            "d_mlp": ("arm", [sizes.d_mlp or 0 for sizes in spec.arms().values()]),
        },
        attrs={"divergence": divergences},
    )


def measure(model: Model, texts: Array, task: RepeatedSource) -> dict[str, Array]:
    """Losses of one member: on average, by context, and on a last token that breaks the repeat."""
    losses = text_losses(model, texts)
    return {
        "loss": losses.mean(),
        "in_context": in_context(task, losses.mean(axis=0)),
        "token_loss": losses,
        "on_repeat": losses[:, -1].mean(),
        "on_break": text_losses(model, broken(texts, model.d_vocab))[:, -1].mean(),
    }


def broken(texts: Array, d_vocab: int) -> Array:
    """The texts with a symbol in the last place that none of their other places has."""
    counts = jax.vmap(lambda text: jnp.bincount(text, length=d_vocab))(texts)
    return texts.at[:, -1].set(jnp.argmin(counts, axis=-1))


def _change(spec: Spec, trained: Trained) -> dict[str, np.ndarray]:
    """Window of each member's phase change, and its change of the loss on every token."""
    steps, stretch = trained.steps, spec.optim.steps / 6
    curve = np.moveaxis(trained.curves["in_context"], 0, -1)
    start = np.asarray(steepest_stretch(jnp.asarray(steps), jnp.asarray(curve), stretch).start)
    losses, members = trained.curves["token_loss"], np.arange(len(start))
    at = [np.abs(steps[:, None] - (start + shift)).argmin(axis=0) for shift in (0, stretch)]
    change = losses[at[1], members] - losses[at[0], members]
    return {"jump_start": start, "jump_end": start + stretch, "token_change": change}


def read_heads(model: Model, token_change: Array, texts: Array) -> dict[str, Array]:
    """Scores of every head of one member, from runs and from weights, ``[layer, head]``.

    ``before_after`` is the paper's attribution: how far removing a head, with patterns held,
    changes the losses on single tokens along what the phase change did to them.
    """
    scores = induction_scores(model, texts)
    copying = jax.vmap(lambda text: head_copying(forward_run(model, text, outputs=True)))(texts)
    matching, weighted = _composed(model, scores.previous)

    def one(text: Array) -> Array:
        found = forward_run(model, text)
        return ablation_effects(
            found, lambda logits: next_token_losses(logits, text), preserve_patterns=True
        ).heads

    lost = jax.vmap(one)(texts)
    direction = token_change / jnp.sqrt(jnp.sum(token_change**2))
    return {
        "prefix": scores.prefix,
        "copying": copying.cosine.mean(axis=0),
        "eigenvalues": copying_score(token_ov(model)),
        "matching": matching,
        "qk_trace": weighted,
        "before_after": jnp.einsum("tlhp,tp->lh", lost, direction),
    }


def _composed(model: Model, previous: Array) -> tuple[Array, Array]:
    """Matching through the keys of earlier heads, ``[layer, head]``, NaN in the first layer.

    First the eigenvalue score through the earlier head that looks most at the previous token, then
    the trace of the circuits through all earlier heads, weighted by their previous-token scores.
    """
    nothing = jnp.full(model.n_heads, jnp.nan)
    matching, weighted = [nothing], [nothing]
    for reader in range(1, model.n_layers):
        writers = [(layer, head) for layer in range(reader) for head in range(model.n_heads)]
        found = [same_matching(*composed_keys(model, writer, reader)) for writer in writers]
        looks = previous[:reader].ravel()
        traces = jnp.stack([trace(circuit) for circuit, _ in found])
        matching.append(jnp.stack([score for _, score in found])[jnp.argmax(looks)])
        weighted.append(looks @ traces)
    return jnp.stack(matching), jnp.stack(weighted)
