"""Measurements of November's model of the sign of a running sum, and its centred twin."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from circuitax.circuits.paths.components import component_logits
from circuitax.kernel.forward import batch_logits
from circuitax.kernel.gauge import centre_last, centre_vocabulary
from circuitax.kernel.model import Model
from circuitax.kernel.run import run
from experiments.real_models.foreign_models.ablations import on_each
from experiments.real_models.foreign_models.sources import ON_NEGATIVE, ON_POSITIVE
from experiments.real_models.foreign_models.tasks import running_signs

NEGATIVE, ZERO, POSITIVE = range(3)


def read(model: Model, texts: int, key: jax.Array) -> dict[str, object]:
    """Losses and ablations of the file's function and of the page's; weights; attention."""
    tokens, labels = (part[:texts] for part in running_signs(1000, 42))
    seen, right = (part[:texts] for part in running_signs(10_000, 43))
    centred = centre_writers(model)
    own, other = (_log_probs(of, tokens) for of in (model, centred))
    held_out = _log_probs(model, seen).argmax(axis=-1)
    moved, shifted = np.abs(own - other), np.abs(np.exp(own) - np.exp(other))
    silenced = {
        name: _summary(_log_probs(_without(of, range(of.d_mlp or 0)), tokens), labels)
        for name, of in (("file", model), ("centred", centred))
    }
    return {
        "sign-fit": _summary(own, labels),
        "sign-fit-centred": _summary(other, labels),
        "sign-accuracy": float((held_out == right).mean()),
        "sign-silenced": silenced["file"],
        "sign-silenced-centred": silenced["centred"],
        "sign-neurons": _rises(model, tokens, labels),
        "sign-neurons-centred": _rises(centred, tokens, labels),
        "sign-moved": float(moved.max()),
        "sign-shifted": float(shifted.max()),
        "sign-answers-changed": int((own.argmax(-1) != other.argmax(-1)).sum()),
        "sign-cosines": _cosines(centred),
        "sign-singular": np.stack([_singular(model)[:2], _singular(centred)[:2]]),
    } | _attention(model, tokens)


def centre_writers(model: Model) -> Model:
    """All that writes to the stream less its mean over d_model: no identity without a norm.

    Source: the published page's preprocessing, TransformerLens's ``center_writing_weights``.
    """
    heads, mlp, W_pos = _parts(model)
    mlp = mlp._replace(W_out=centre_last(mlp.W_out), b_out=centre_last(mlp.b_out))
    heads = heads._replace(W_O=centre_last(heads.W_O), b_O=centre_last(heads.b_O))
    return model.replace(
        W_E=centre_last(model.W_E),
        W_pos=centre_last(W_pos),
        blocks=model.blocks._replace(attention=heads, mlp=mlp),
    )


def _parts(model: Model) -> tuple[Any, Any, Any]:
    """Heads, MLP and position vectors, all of which a model of this task has.

    Raises:
        ValueError: If one is missing.
    """
    parts = (model.blocks.attention, model.blocks.mlp, model.W_pos)
    if any(part is None for part in parts):
        raise ValueError("arena_november_cumsum must have an MLP and learned positions")
    return parts


def _log_probs(model: Model, tokens: np.ndarray) -> np.ndarray:
    logits = jax.jit(batch_logits)(model, jnp.asarray(tokens))
    return np.asarray(jax.nn.log_softmax(logits, axis=-1))


def _own(log_probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.take_along_axis(log_probs, labels[..., None], axis=-1)[..., 0]


def _summary(log_probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The loss, and the mean, median and least probability of the right answer."""
    own = _own(log_probs, labels)
    p = np.exp(own)
    return np.array([-own.mean(), p.mean(), np.median(p), p.min()])


def _without(model: Model, neurons: range | tuple[int, ...]) -> Model:
    _, mlp, _ = _parts(model)
    W_out = mlp.W_out.at[:, jnp.array(neurons)].set(0)
    return model.replace(blocks=model.blocks._replace(mlp=mlp._replace(W_out=W_out)))


def _rises(model: Model, tokens: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Rise of the loss without each neuron."""

    def loss(of: Model) -> float:
        return float(-_own(_log_probs(of, tokens), labels).mean())

    intact = loss(model)
    return np.array([loss(_without(model, (i,))) - intact for i in range(model.d_mlp or 0)])


def _singular(model: Model) -> np.ndarray:
    heads = model.blocks.attention
    return np.linalg.svd(np.asarray(model.W_E @ heads.W_V[0, 0] @ heads.W_O[0, 0]))[1]


def _cosines(model: Model) -> np.ndarray:
    """u·pos, u·neg, neg·pos, pos·zero, neg·zero: u rises with the value, the rest is W_U."""
    heads = model.blocks.attention
    left, _, right = np.linalg.svd(np.asarray(model.W_E @ heads.W_V[0, 0] @ heads.W_O[0, 0]))
    u = right[0] * np.sign(left[-1, 0] - left[0, 0])
    W_U = np.asarray(centre_vocabulary(model.W_U))
    neg, zero, pos = W_U[:, NEGATIVE], W_U[:, ZERO], W_U[:, POSITIVE]
    pairs = ((u, pos), (u, neg), (neg, pos), (pos, zero), (neg, zero))
    return np.array([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs])


def _attention(model: Model, tokens: np.ndarray) -> dict[str, object]:
    """Evenness of attention, fit of the head's output, firing of neurons by side, and the sum."""
    heads, mlp, _ = _parts(model)
    u = jnp.asarray(np.linalg.svd(np.asarray(model.W_E @ heads.W_V[0, 0] @ heads.W_O[0, 0]))[2][0])

    def of_text(text: Array) -> tuple[Array, ...]:
        seen = run(model, text, outputs=True)
        trace: Any = seen.trace
        written = trace.head_outputs[0].sum(axis=0)
        middle = seen.trace.streams[0] + written + heads.b_O[0][None]
        fired = jax.nn.relu(middle @ mlp.W_in[0] + mlp.b_in[0][None])
        left = jnp.abs(component_logits(seen).remainder).max()
        return seen.trace.patterns[0, 0], written @ u, fired, left

    patterns, along, fired, left = (np.asarray(x) for x in on_each(of_text, tokens))
    places = 1 + np.arange(tokens.shape[1])
    means = (tokens - 5).cumsum(axis=1) / places
    even = np.tri(len(places)) / places[:, None]
    by_side = np.stack([fired[side].mean(axis=0) for side in (means < 0, means > 0)], axis=1)
    return {
        "sign-uneven": float(np.abs(patterns - even).max()),
        "sign-follows": float(abs(np.corrcoef(along.ravel(), means.ravel())[0, 1])),
        "sign-fired": by_side[[*ON_POSITIVE, *ON_NEGATIVE]],
        "sign-closes": float(left.max()),
    }
