"""Heads of SmolLM2-135M that look a fixed distance back: read off weights, then seen on text.

With rotary positions each head has one QK circuit for each offset. A score is linear in either
content, so that the score of mean contents is the mean over all pairs of them. What differs is what
is taken for the contents of a layer: embeddings; streams of tokens that no head has touched, which
only MLPs write to, so that weights alone give them; streams seen on text; or streams of random
tokens, which need no text. A mean does not say how much scores differ with the contents, so that
the attention between single untouched streams is averaged too.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int

from circuitax.circuits.detectors import measured_kernel, score_kernel
from circuitax.circuits.weights.heads import best_offset, offset_scores
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Trace, ablate_heads
from circuitax.kernel.keys import derive, host_generator
from circuitax.kernel.model import Model
from circuitax.kit.checks import require_at_least, require_below
from circuitax.kit.memory import require_arrays, require_memory
from circuitax.kit.real_model import (
    REAL,
    at_hand,
    check_real_name,
    open_weights,
    outside_inputs,
    text_stretches,
)
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from experiments.real_models.rotary_atlas.names import NEAR

CONTENTS = ("embedding", "untouched", "stream", "random", "spread")
SHOWN = 16  # offsets whose kernel is kept


@dataclass(frozen=True)
class Spec:
    """The model, and the amount of text.

    Attributes:
        weights: "smollm2", whose package may be absent, or "random" for a small model of ours.
        texts: Stretches of prose, one from each chapter.
        length: Tokens of a stretch.
        offsets: Offsets 0, 1, 2, ... that a head chooses from.
        tokens: Random tokens whose untouched streams are averaged. Beside them, as many random
            stretches as texts are read.
    """

    weights: str = REAL
    texts: int = 16
    length: int = 128
    offsets: int = 64
    tokens: int = 1024

    def __post_init__(self) -> None:
        check_real_name(self.weights)
        require_at_least(self, 2, "texts")
        require_at_least(self, 1, "tokens")
        require_at_least(self, NEAR, "offsets")
        require_below(self, "length", "offsets")
        require_arrays(self, "2 texts length", "length length")

    def outside_inputs(self) -> dict[str, str]:
        """Checksums of weights and prose, so that other files make another run."""
        return outside_inputs(self.weights, text=True)


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Kernels over offsets, from weights and from text; without packages say how to get them."""
    notes = at_hand(spec.weights, lab, text=True)
    if notes["missing"]:
        return Record(data=xr.Dataset(), notes=notes)
    model = open_weights(spec.weights, derive(key, "weights"))
    rng = host_generator(derive(key, "texts"))
    texts = text_stretches(spec.weights, rng, spec.texts, spec.length, middle=True)
    seen = [look(model, jnp.asarray(text), spec.offsets) for text in texts]
    kernels, raw, mean_streams = (np.stack(list(part)) for part in zip(*seen, strict=True))
    require_memory(spec, spec.tokens * model.d_model, "tokens")
    ids = jnp.asarray(rng.integers(0, model.d_vocab, spec.tokens))
    stretches = jnp.asarray(rng.integers(0, model.d_vocab, (spec.texts, spec.length)))
    on_random = [look(model, ids, spec.offsets)[2] for ids in stretches]
    contents = (
        *weight_contents(model, ids),
        jnp.asarray(mean_streams.mean(axis=0)),
        jnp.mean(jnp.stack(on_random), axis=0),
    )
    kernel = np.mean([untouched_kernel(model, ids, spec.offsets) for ids in stretches], axis=0)
    found = [*(predict(model, x, spec.offsets) for x in contents), (kernel, kernel.argmax(axis=-1))]
    predicted, best = zip(*found, strict=True)
    shown, heads = min(SHOWN, spec.offsets), ("layer", "head")
    data = xr.Dataset(
        {
            "predicted": (("content", *heads, "offset"), np.stack(predicted)[..., :shown]),
            "best": (("content", *heads), np.stack(best)),
            "measured": ((*heads, "offset"), kernels.mean(axis=0)[..., :shown]),
            "previous": (("text", *heads), kernels[..., 1]),
            "local": (("text", *heads), kernels[..., :NEAR].sum(axis=-1)),
            "previous_raw": (("text", *heads), raw[..., 1]),
        },
        coords={"content": list(CONTENTS)},
    )
    return Record(data=data, notes=notes | {"offsets": spec.offsets, "length": spec.length})


@jax.jit(static_argnames="n_offsets")
def look(
    model: Model, text: Int[Array, " n_ctx"], n_offsets: int
) -> tuple[Array, Array, Float[Array, "n_layers 1 d_model"]]:
    """Attention by offset without and with the first position, and the mean input of heads."""
    trace = forward(model, text)[1]
    kernel = measured_kernel(trace.patterns, n_offsets)
    raw = measured_kernel(trace.patterns, n_offsets, first=True)
    return kernel, raw, _read(trace)[:, 1:].mean(axis=1, keepdims=True)


@jax.jit
def weight_contents(
    model: Model, ids: Int[Array, " n_tokens"]
) -> tuple[Float[Array, "n_layers 1 d_model"], Float[Array, "n_layers 1 d_model"]]:
    """Means of embeddings, and of streams that no head has written to, as heads would read them."""
    every = ablate_heads(jnp.ones((model.n_layers, model.n_heads)))
    rows = _read(forward(model, ids, every)[1]).mean(axis=1, keepdims=True)
    return jnp.broadcast_to(rows[:1], rows.shape), rows


@jax.jit(static_argnames="n_offsets")
def untouched_kernel(model: Model, ids: Int[Array, " n_ctx"], n_offsets: int) -> Array:
    """Attention by offset between streams of these tokens that no head has written to."""
    every = ablate_heads(jnp.ones((model.n_layers, model.n_heads)))
    return measured_kernel(forward(model, ids, every)[1].patterns, n_offsets)


@jax.jit(static_argnames="n_offsets")
def predict(
    model: Model, rows: Float[Array, "n_layers 1 d_model"], n_offsets: int
) -> tuple[Array, Array]:
    """Kernel and best offset of every head, between the given contents."""
    scores = offset_scores(model, rows, rows).at(jnp.arange(n_offsets))
    return score_kernel(scores.mean(axis=(2, 3))), best_offset(scores)


def _read(trace: Trace) -> Float[Array, "n_layers n_ctx d_model"]:
    """Input of heads at each position, before the gain of their norm."""
    streams, scales = trace.streams[:-1], trace.scales.attention
    return streams if scales is None else streams / scales[..., None]
