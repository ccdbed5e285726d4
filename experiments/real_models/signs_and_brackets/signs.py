"""November's problem: one head and an MLP tell the sign of a running sum."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from circuitax.kernel.forward import batch_logits
from circuitax.kernel.gauge import centre_last, centre_vocabulary
from circuitax.kernel.model import Model
from circuitax.kernel.run import run
from experiments.real_models.shared.arena_examples import running_signs
from experiments.real_models.shared.published_models import (
    Arrays,
    log_probabilities,
    of_labels,
    on_each,
)

NEURONS = [0, 1, 3, 4, 2, 7]  # by the page's text the first four fire where the mean is positive


def running_sign(model: Model, texts: int) -> Arrays:
    """November's model: losses of the file's function and of the page's; weights; attention."""
    tokens, labels = (part[:texts] for part in running_signs(1000, 42))
    seen, right = (part[:texts] for part in running_signs(10_000, 43))
    centred = centre_writers(model)
    own, other = (_of_model(of, tokens) for of in (model, centred))
    silenced = [
        _summary(_of_model(_without(of, range(of.d_mlp or 0)), tokens), labels)
        for of in (model, centred)
    ]
    intact = float(-of_labels(other, labels).mean())
    each = [_of_model(_without(centred, (i,)), tokens) for i in range(model.d_mlp or 0)]
    return {
        "sign-fit": _summary(own, labels),
        "sign-fit-centred": _summary(other, labels),
        "sign-accuracy": float((_of_model(model, seen).argmax(axis=-1) == right).mean()),
        "sign-silenced": silenced[0],
        "sign-silenced-centred": silenced[1],
        "sign-neurons-centred": np.array([-of_labels(of, labels).mean() for of in each]) - intact,
        "sign-moved": float(np.abs(own - other).max()),
        "sign-shifted": float(np.abs(np.exp(own) - np.exp(other)).max()),
        "sign-cosines": _cosines(centred),
    } | _running_mean(model, tokens)


def centre_writers(model: Model) -> Model:
    """All that writes to the stream less its mean over d_model: no identity without a norm.

    Source: the published page's preprocessing, TransformerLens's ``center_writing_weights``.
    """
    heads: Any = model.blocks.attention
    mlp: Any = model.blocks.mlp
    W_pos: Any = model.W_pos
    mlp = mlp._replace(W_out=centre_last(mlp.W_out), b_out=centre_last(mlp.b_out))
    heads = heads._replace(W_O=centre_last(heads.W_O), b_O=centre_last(heads.b_O))
    return model.replace(
        W_E=centre_last(model.W_E),
        W_pos=centre_last(W_pos),
        blocks=model.blocks._replace(attention=heads, mlp=mlp),
    )


def _of_model(model: Model, tokens: np.ndarray) -> np.ndarray:
    return log_probabilities(jax.jit(batch_logits)(model, jnp.asarray(tokens)))


def _summary(log_probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The loss, and the mean, median and least probability of the right answer."""
    own = of_labels(log_probs, labels)
    p = np.exp(own)
    return np.array([-own.mean(), p.mean(), np.median(p), p.min()])


def _without(model: Model, neurons: range | tuple[int, ...]) -> Model:
    mlp: Any = model.blocks.mlp
    W_out = mlp.W_out.at[:, jnp.array(neurons)].set(0)
    return model.replace(blocks=model.blocks._replace(mlp=mlp._replace(W_out=W_out)))


def _values_svd(model: Model) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    heads = model.blocks.attention
    return np.linalg.svd(np.asarray(model.W_E @ heads.W_V[0, 0] @ heads.W_O[0, 0]))


def _cosines(model: Model) -> np.ndarray:
    """u·pos, u·neg, neg·pos, pos·zero, neg·zero: u rises with the value, the rest is W_U."""
    left, _, right = _values_svd(model)
    u = right[0] * np.sign(left[-1, 0] - left[0, 0])
    neg, zero, pos = np.asarray(centre_vocabulary(model.W_U)).T
    pairs = ((u, pos), (u, neg), (neg, pos), (pos, zero), (neg, zero))
    return np.array([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs])


def _running_mean(model: Model, tokens: np.ndarray) -> Arrays:
    """Evenness of attention, fit of the head's output, firing of neurons by side."""
    heads: Any = model.blocks.attention
    mlp: Any = model.blocks.mlp
    u = jnp.asarray(_values_svd(model)[2][0])

    def of_text(text: Array) -> tuple[Array, ...]:
        seen = run(model, text, outputs=True)
        trace: Any = seen.trace
        written = trace.head_outputs[0].sum(axis=0)
        middle = trace.streams[0] + written + heads.b_O[0][None]
        fired = jax.nn.relu(middle @ mlp.W_in[0] + mlp.b_in[0][None])
        return trace.patterns[0, 0], written @ u, fired

    patterns, along, fired = (np.asarray(x) for x in on_each(of_text, tokens))
    places = 1 + np.arange(tokens.shape[1])
    means = (tokens - 5).cumsum(axis=1) / places
    even = np.tri(len(places)) / places[:, None]
    by_side = np.stack([fired[side].mean(axis=0) for side in (means < 0, means > 0)], axis=1)
    return {
        "sign-uneven": float(np.abs(patterns - even).max()),
        "sign-follows": float(abs(np.corrcoef(along.ravel(), means.ravel())[0, 1])),
        "sign-fired": by_side[NEURONS],
    }
