"""Optimizers from a spec, with PyTorch's semantics and a learning rate that stays dynamic.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

from dataclasses import dataclass
from enum import Enum

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree
from optax import contrib

from circuitax.kernel.checks import check_range, choose_fields

# Root mean square of an entry of a step, which is that of Adam's in practice (Liu et al. 2025):
# one learning rate then serves both parts.
STEP_RMS = 0.2
_READS = contrib.MuonDimensionNumbers(reduction_axis=2, output_axis=(1, 3))
_DENSE = contrib.MuonDimensionNumbers(reduction_axis=1, output_axis=2)
# The maps inside a transformer's blocks, by the last part of their names: which axes they read and
# which they write. Heads of a layer are one map, layers are separate (`kernel.model_fields.AXES`).
MAPS = {
    "W_Q": _READS,
    "W_K": _READS,
    "W_V": _READS,
    "W_O": contrib.MuonDimensionNumbers(reduction_axis=(1, 2), output_axis=3),
    "W_in": _DENSE,
    "W_gate": _DENSE,
    "W_out": _DENSE,
    "W_hidden": contrib.MuonDimensionNumbers(reduction_axis=2, output_axis=3),
}


def muon_direction(
    *, momentum: float, b1: float, b2: float, eps: float, weight_decay: float
) -> optax.GradientTransformation:
    """The map from gradients to a step direction d, without the rate: an update is ``-rate d``.

    For a map W of a block, d is ``0.2 sqrt(max(shape)) U Vᵀ + decay W``, where ``U S Vᵀ`` is the
    Nesterov mean of its gradients; five Newton–Schulz steps give ``U Vᵀ`` up to singular values
    between about 0.7 and 1.2. Embedding, unembedding, gains and biases take AdamW's direction with
    a Nesterov mean.

    Source: ``optax.contrib.muon`` with its rate taken out; Liu et al. 2025 for the size of steps.
    """
    return contrib.muon(
        learning_rate=-1.0,  # Optax turns the sign, as for a whole update
        ns_steps=5,
        beta=momentum,
        eps=eps,
        weight_decay=weight_decay,
        nesterov=True,
        adam_b1=b1,
        adam_b2=b2,
        adam_weight_decay=weight_decay,
        muon_weight_dimension_numbers=maps_of,
        consistent_rms=STEP_RMS,
    )


def maps_of(params: PyTree) -> PyTree:
    """The input and output axes of each parameter by name; None for parameters that are no map."""
    names = [_last(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    # Without any name it is what Optax left of a model whose maps have no entries.
    if names and not MAPS.keys() & set(names):
        raise ValueError(f"params has {names}, must have one of {', '.join(MAPS)} for muon")
    # A model without layers has maps without entries.
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: MAPS.get(_last(path)) if leaf.size else None, params
    )


def _last(path: tuple) -> str:
    return jax.tree_util.keystr(path[-1:], simple=True).rpartition(".")[2]


class Optimizer(Enum):
    """Rule for the direction of a step; names as written in a config."""

    sgd = "sgd"
    adam = "adam"
    adamw = "adamw"
    muon = "muon"


class Schedule(Enum):
    """Schedule of the learning rate from its peak to its end, after the warm-up."""

    constant = "constant"
    linear = "linear"
    cosine = "cosine"


@dataclass(frozen=True)
class OptimSpec:
    """An optimizer with every setting stated, so that no result depends on a library's default.

    Weights decay by 0.01 unless told otherwise, with ``"adam"`` too: Adam as Optax and PyTorch have
    it is ``OptimSpec("adam", weight_decay=0.0)``.

    Attributes:
        name: ``sgd``, ``adam``, ``adamw`` or ``muon`` (`muon_direction`); an `Optimizer` or
            its name.
        learning_rate: Peak rate, positive; an ensemble may sweep it without compiling again.
        weight_decay: Decoupled for ``adamw`` and ``muon``, added to the gradient for the others;
            the sources decay every parameter by PyTorch's 0.01, biases too (Optax's default is
            1e-4, E17).
        b1: Decay of the mean of gradients (Adam), in [0, 1).
        b2: Decay of the mean of their squares (Adam), in [0, 1).
        eps: Added to the root of that mean, positive.
        momentum: Momentum of ``sgd``, or decay of the mean of gradients of ``muon``; in [0, 1).
        schedule: Shape after the warm-up; a `Schedule` or its name.
        end_fraction: The last rate over the peak rate (linear, cosine), in [0, 1].
        warmup_steps: Steps of linear rise; the first one is at ``learning_rate / warmup_steps``.
        steps: Updates in all; linear and cosine end there.
        clip_norm: Largest global norm of a gradient, or None; applied before the decay.
    """

    name: Optimizer = Optimizer.adamw
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8
    momentum: float = 0.0
    schedule: Schedule = Schedule.constant
    end_fraction: float = 0.0
    warmup_steps: int = 0
    steps: int = 10_000
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        choose_fields(self)
        for field in ("learning_rate", "eps", "steps"):
            value = getattr(self, field)
            if not value > 0:
                raise ValueError(f"{field}={value} must be positive")
        if not self.weight_decay >= 0:
            raise ValueError(f"weight_decay={self.weight_decay} must be 0 or more")
        for field in ("b1", "b2", "momentum"):
            check_range(field, getattr(self, field), "[0, 1)")
        check_range("end_fraction", self.end_fraction, "[0, 1]")
        if not 0 <= self.warmup_steps <= self.steps:
            raise ValueError(
                f"warmup_steps={self.warmup_steps} must be in [0, steps], steps={self.steps}"
            )
        if self.clip_norm is not None and not self.clip_norm > 0:
            raise ValueError(
                f"clip_norm={self.clip_norm} must be positive, or null for no clipping"
            )
        if self.momentum and self.name not in (Optimizer.sgd, Optimizer.muon):
            raise ValueError(f"momentum={self.momentum} must be 0 for {self.name.value}; set b1")


def direction(spec: OptimSpec) -> optax.GradientTransformation:
    """The map from gradients to a step direction d, without the rate: an update is ``-rate d``.

    Source: PyTorch's SGD, Adam and AdamW; optax.adamw and optax.contrib.muon with their rates taken
        out.
    """
    decay = optax.add_decayed_weights(spec.weight_decay)
    adam = optax.scale_by_adam(b1=spec.b1, b2=spec.b2, eps=spec.eps)
    muon = muon_direction(
        momentum=spec.momentum,
        b1=spec.b1,
        b2=spec.b2,
        eps=spec.eps,
        weight_decay=spec.weight_decay,
    )
    parts = {
        Optimizer.sgd: [decay, optax.trace(spec.momentum)],
        Optimizer.adam: [decay, adam],
        Optimizer.adamw: [adam, decay],
        Optimizer.muon: [muon],
    }[spec.name]
    if spec.clip_norm is not None:
        parts = [optax.clip_by_global_norm(spec.clip_norm), *parts]
    return optax.chain(*parts)


def rate_factor(spec: OptimSpec, step: Int[Array, ""]) -> Float[Array, ""]:
    """The learning rate at ``step``, relative to its peak.

    Differs: the notebook's unused ``cosine`` is a quarter wave, ``cos(π t / 2(T - 1))``.
    """
    t = step.astype(float)
    share = jnp.clip((t - spec.warmup_steps) / max(spec.steps - spec.warmup_steps, 1), 0, 1)
    end = spec.end_fraction
    match spec.schedule:
        case Schedule.constant:
            factor = jnp.ones_like(t)
        case Schedule.linear:
            factor = 1 - (1 - end) * share
        case Schedule.cosine:
            factor = end + (1 - end) * (1 + jnp.cos(jnp.pi * share)) / 2
    return jnp.minimum(factor, (t + 1) / spec.warmup_steps) if spec.warmup_steps else factor
