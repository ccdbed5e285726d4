"""Evaluators of heads, tried on heads whose strength is known because it was planted.

The induction-heads paper scores heads by what they attend to and raise on random tokens, and holds
these scores against what weights say: copying against OV eigenvalues, prefix matching against the
trace of the QK circuit. Here every head has a planted part and a random one, in known shares.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Key

from circuitax.circuits.detectors import detect, head_copying, induction_scores, previous_mask
from circuitax.circuits.known import Strengths, offset_model, planted_model
from circuitax.circuits.weights.heads import token_ov
from circuitax.circuits.weights.spectra import composed_keys, copying_score, same_matching
from circuitax.config.ranges import Positive
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as forward_run
from circuitax.kernel.spectrum import trace
from circuitax.lab.lab import Lab

HEAD = ("member", "head")
Several = Annotated[int, "[2, inf)"]


@dataclass(frozen=True)
class Spec:
    """Sizes of the planted models and of the texts that they are tried on.

    Attributes:
        d_vocab: Tokens.
        n_heads: Heads of each layer.
        seeds: Models, each with its own random parts, order of strengths, and texts.
        texts: Texts for each evaluator; the paper has 10.
        distinct: Different random tokens of a text; the paper has 25.
        repeats: How often they stand in the text that prefix matching is scored on; 4 there.
        offsets: Distances 0, 1, ... that heads of one layer with sinusoidal positions ask for.
        d_model: Width of that layer; even.
    """

    d_vocab: int = 32
    n_heads: Several = 8
    seeds: Several = 16
    texts: Positive = 10
    distinct: Annotated[int, "[2, d_vocab]"] = 25
    repeats: Several = 4
    offsets: Several = 24
    d_model: Several = 64

    def __post_init__(self) -> None:
        if self.d_model % 2:
            raise ValueError(f"d_model={self.d_model} must be even: positions come in pairs")
        if self.offsets > (n_ctx := self.distinct * self.repeats):
            raise ValueError(f"offsets={self.offsets} must be at most distinct · repeats = {n_ctx}")


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Plant, run and read every model."""
    members = member_keys(derive(key, "planted"), spec.seeds)
    found = lab.stage("planted", jax.jit(jax.vmap(partial(evaluate, spec))), members)
    shifts = member_keys(derive(key, "offsets"), spec.seeds)
    at_offset = lab.stage("offsets", jax.jit(jax.vmap(partial(attention_by_offset, spec))), shifts)
    arrays: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        name: (HEAD, np.asarray(value)) for name, value in found.items()
    }
    arrays["at_offset"] = (("member", "asked", "offset"), np.asarray(at_offset))
    notes = {"distinct": spec.distinct, "d_vocab": spec.d_vocab}
    return xr.Dataset(arrays, attrs=notes)


def evaluate(spec: Spec, key: Key[Array, ""]) -> dict[str, Array]:
    """Scores of one model's heads, by behaviour and by weights, beside the planted strengths."""
    orders, weights, words = jax.random.split(key, 3)
    least = {"previous": 0.0, "matching": 0.0, "copying": -1.0}
    strengths = Strengths(
        *(
            jax.random.permutation(order, jnp.linspace(low, 1.0, spec.n_heads))
            for order, low in zip(jax.random.split(orders, 3), least.values(), strict=True)
        )
    )
    once = _distinct(spec, words)
    n_ctx = spec.distinct * spec.repeats
    model = planted_model(weights, strengths, spec.d_vocab, n_ctx)
    scores = induction_scores(model, jnp.tile(once, (1, spec.repeats)))
    copying = jax.vmap(lambda text: head_copying(forward_run(model, text, outputs=True)))(once)
    return {
        **{f"planted_{name}": value for name, value in strengths._asdict().items()},
        "previous": scores.previous[0],
        "prefix": scores.prefix[1],
        "raised": copying.raised.mean(axis=0)[1],
        "eigenvalues": copying_score(token_ov(model))[1],
        "qk_trace": qk_trace(model, scores.previous[0]),
    }


def qk_trace(model: Model, previous: Array) -> Array:
    """Trace of the QK circuit through the first layer's heads, weighted by their previous scores.

    Source: induction-heads paper, "trace of QK eigenvalues".
    """
    circuits = [
        same_matching(*composed_keys(model, (0, head), 1))[0] for head in range(model.n_heads)
    ]
    return sum(weight * trace(circuit) for weight, circuit in zip(previous, circuits, strict=True))


def attention_by_offset(spec: Spec, key: Key[Array, ""]) -> Array:
    """Mean attention ``[asked, offset]`` of heads that ask sinusoids for an offset each."""
    weights, words = jax.random.split(key)
    offsets = jnp.arange(spec.offsets)
    model = offset_model(weights, offsets, spec.d_vocab, spec.d_model, gain=1.0)
    n_ctx = spec.distinct * spec.repeats
    text = jax.random.randint(words, (n_ctx,), 0, spec.d_vocab)
    patterns = forward(model, text)[1].patterns[0]
    return jnp.stack(
        [detect(patterns, previous_mask(text, step)).score for step in range(spec.offsets)], axis=-1
    )


def _distinct(spec: Spec, key: Key[Array, ""]) -> Array:
    """Texts of different random tokens."""
    return jax.vmap(lambda key: jax.random.permutation(key, spec.d_vocab)[: spec.distinct])(
        jax.random.split(key, spec.texts)
    )
