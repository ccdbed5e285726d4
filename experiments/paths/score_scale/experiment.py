"""Unscaled scores grow with the width of a head and saturate the softmax; 1/sqrt(d_k) stops it."""

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from circuitax.circuits.score_terms import head_scores
from circuitax.config.ranges import Positive
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.attention import causal_mask
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.measured_training import chunk_size, language_arm
from circuitax.kit.members import each_member, stack_named
from circuitax.lab.lab import Lab
from circuitax.training.language import text_losses
from circuitax.training.optim import OptimSpec

SCALES = ("1/sqrt(d_k)", "1")


@dataclass(frozen=True)
class Spec:
    """Heads of several widths, with and without the scale.

    Attributes:
        model: Sizes; ``d_head`` and ``score_scale`` are set here. Embeddings of norm
            ``sqrt(d_model)`` have coordinates of variance 1, as behind a layer norm.
        task: Repeated random texts.
        optim: Optimizer.
        widths: Widths of heads.
        seeds: Members at each width and scale, each with its own initialisation and data.
        texts: Texts to measure on.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    task: RepeatedSource = field(default_factory=RepeatedSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    widths: Annotated[tuple[Positive, ...], "increasing"] = (4, 16, 64, 256)
    seeds: Positive = 8
    texts: Positive = 32


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Measure every width and scale at initialisation, train, and measure again."""
    exam = replace(spec.task, batch=spec.texts)(derive(key, "evaluation"))
    examine = each_member(measure, exam)
    chunk = chunk_size(spec.optim.steps)
    cells, divergences = [], {}
    for scale, width in product(SCALES, spec.widths):
        factor = width**-0.5 if scale == SCALES[0] else 1.0
        name = f"{'scaled' if scale == SCALES[0] else 'raw'}-{width}"
        trained = language_arm(
            lab,
            name,
            derive(key, f"{scale} {width}"),
            replace(spec.model, d_head=width, d_value=spec.model.head_width, score_scale=factor),
            spec.task,
            spec.optim,
            seeds=spec.seeds,
            every=chunk,
            measure=examine,
        )
        ends = {quantity: curve[[0, -1]] for quantity, curve in trained.curves.items()}
        cells.append(ends | {"alive": trained.alive})
        divergences[name] = trained.divergence
    return _dataset(spec, cells).assign_attrs(divergence=divergences)


def measure(model: Model, texts: Array) -> dict[str, Array]:
    """Spread of the first layer's scores, and saturation and loss of the whole model."""
    heads = jnp.arange(model.n_heads)

    def one(text: Array) -> tuple[Array, Array]:
        found = run_model(model, text)
        scores = jax.vmap(lambda head: head_scores(found, 0, head))(heads)
        return scores, found.trace.patterns

    scores, patterns = jax.vmap(one)(texts)
    place = jnp.arange(texts.shape[1])
    seen = causal_mask(place, place, model.spec.causal)
    # The first rows can attend to little; the last quarter says what a full context does.
    late = patterns[..., -texts.shape[1] // 4 :, :]
    return {
        "variance": jnp.var(scores, axis=(0, 2, 3), where=seen).mean(),
        "entropy": row_entropy(late).mean(),
        "jacobian": jacobian_norm(late).mean(),
        "loss": text_losses(model, texts).mean(),
    }


def _dataset(spec: Spec, cells: list[dict[str, np.ndarray]]) -> xr.Dataset:
    def grid(name: str) -> np.ndarray:
        stacked = stack_named(cells, name)
        return stacked.reshape(len(SCALES), len(spec.widths), *stacked.shape[1:])

    over = ("scale", "width", "time", "member")
    data = {name: (over, grid(name)) for name in ("variance", "entropy", "jacobian", "loss")}
    return xr.Dataset(
        data | {"alive": (("scale", "width", "member"), grid("alive"))},
        coords={
            "scale": list(SCALES),
            "width": list(spec.widths),
            "time": ["initial", "trained"],
        },
    )


def row_entropy(pattern: Float[Array, "*batch dest src"]) -> Float[Array, "*batch dest"]:
    """``-Σ_s A_ts ln A_ts`` in nats, 0 where all attention is on one source."""
    positive = jnp.where(pattern > 0, pattern, 1)
    return -jnp.sum(pattern * jnp.log(positive), axis=-1)


def jacobian_norm(pattern: Float[Array, "*batch dest src"]) -> Float[Array, "*batch dest"]:
    """Frobenius norm of the softmax's Jacobian ``diag(a) - a aᵀ`` at each row a.

    ``‖J‖² = Σ a² - 2 Σ a³ + (Σ a²)²``; 0 for a saturated row, ``sqrt(n - 1) / n`` for a flat one.

    Source: S1 and S2, "saturation with near-zero gradients".
    """
    square = jnp.square(pattern)
    diagonal = jnp.sum(jnp.square(pattern * (1 - pattern)), axis=-1)
    # Off the diagonal: (Σ a²)² - Σ a⁴ = Σ_s a_s² (Σ a² - a_s²), whose terms are not negative.
    rest = jnp.sum(square * (jnp.sum(square, axis=-1, keepdims=True) - square), axis=-1)
    return jnp.sqrt(diagonal + jnp.maximum(rest, 0))
