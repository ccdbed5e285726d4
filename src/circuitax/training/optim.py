"""Optimizers from a spec, with PyTorch's semantics and a learning rate that stays dynamic.

E17 is an erratum of the sources (docs/errata.md).
"""

from dataclasses import dataclass
from enum import Enum

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from circuitax.kernel.checks import check_range, choose_fields
from circuitax.training.muon import muon_direction


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
        name: ``sgd``, ``adam``, ``adamw`` or ``muon`` (`muon.muon_direction`); an `Optimizer` or
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
