"""Measurements of August's model of the first unique letter."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from circuitax.circuits.paths.components import logits_of, over_mean_token
from circuitax.circuits.paths.expansion import all_paths, expand, path_streams
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.circuits.weights.folding import fold_norms
from circuitax.kernel.forward import forward
from circuitax.kernel.gauge import centre_vocabulary
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run, run
from experiments.real_models.foreign_models.ablations import (
    ablated,
    mean_outputs,
    on_each,
    value_bias_writes,
)
from experiments.real_models.foreign_models.sources import OWN_ROWS
from experiments.real_models.foreign_models.tasks import NONE, first_unique

LETTERS = "abcdefghij?"
ADVERSARIAL = "?ggbbiihaggbigbigbig"
DETAIL_PLACES, DETAIL_TOKEN = (1, 2, 16), 2  # row 0, token c


def read(model: Model, texts: int, key: jax.Array) -> dict[str, object]:
    """Losses, ablations, attention to copies, paths, and paths over the wrong norm scale."""
    tokens, labels = (part[:texts] for part in first_unique(1000, 42))
    seen, right = (part[:texts] for part in first_unique(5000, 43))
    logits = np.asarray(on_each(lambda text: forward(model, text)[0], tokens))
    held_out = np.asarray(on_each(lambda text: forward(model, text)[0].argmax(axis=-1), seen))
    own = np.take_along_axis(_log_probs(logits), labels[..., None], axis=-1)[..., 0]
    said = np.asarray(forward(model, [LETTERS.index(c) for c in ADVERSARIAL])[0]).argmax(axis=-1)
    of_loss = (model, tokens, labels, _loss)
    found: dict[str, object] = {
        "unique-loss": float(-own.mean()),
        "unique-probability": float(np.exp(own).mean()),
        "unique-least": float(np.exp(own).min()),
        "unique-accuracy": float((held_out == right).mean()),
        "unique-adversarial-shares": np.array(
            [(said[7:9] == LETTERS.index("h")).mean(), (said[9:] == LETTERS.index("a")).mean()]
        ),
        "unique-mean-ablation": ablated(*of_loss, mean_outputs(model, tokens)),
        "unique-zero-ablation": ablated(*of_loss, value_bias_writes(model, tokens.shape[1])),
        "unique-copies": _to_copies(model, tokens),
    }
    own_logits = _own_logits(model, tokens)
    found |= {name: own_logits[place] for name, place in OWN_ROWS.items()}
    return found | {"unique-own-logits": own_logits} | _paths(model, tokens)


def _loss(logits: Float[Array, "n_ctx d_vocab"], labels: Array) -> Array:
    return -jnp.take_along_axis(
        jax.nn.log_softmax(logits, axis=-1), labels[:, None], axis=-1
    ).mean()


def _log_probs(logits: np.ndarray) -> np.ndarray:
    return np.asarray(jax.nn.log_softmax(logits, axis=-1))


def _to_copies(model: Model, tokens: np.ndarray) -> np.ndarray:
    """Attention of layer 0 to earlier copies of the own letter, ``[head, letter]``."""
    patterns = np.asarray(on_each(lambda text: forward(model, text)[1].patterns[0], tokens))
    same = (tokens[:, :, None] == tokens[:, None, :]) & np.tri(tokens.shape[1], k=-1, dtype=bool)
    given = np.where(same[:, None], patterns, 0).sum(axis=-1)
    again = same.any(axis=-1)
    rows = [given.transpose(0, 2, 1)[again & (tokens == letter)] for letter in range(NONE)]
    return np.stack([row.mean(axis=0) for row in rows], axis=1)


def _own_logits(model: Model, tokens: np.ndarray) -> Float[np.ndarray, "step head letter"]:
    """Contribution of a letter to its own logit by each path of layer 1, at mean norm scales."""
    scales = on_each(lambda text: forward(model, text)[1].scales, tokens)
    first, second = np.asarray(scales.attention)[:, :, 1:].mean(axis=(0, 2))
    final = float(np.asarray(scales.final)[:, 1:].mean())
    folded = fold_norms(model)
    heads = folded.blocks.attention
    W_OV = jnp.einsum("lhdk,lhkm->lhdm", heads.W_V, heads.W_O)
    letters = folded.W_E[:NONE]
    written = jnp.einsum("td,hdm->htm", letters / first, W_OV[0])
    read = jnp.concatenate([letters[None], written]) / second
    out = jnp.einsum("std,hdm->shtm", read, W_OV[1]) / final
    W_U = centre_vocabulary(folded.W_U)[:, :NONE]
    return np.asarray(jnp.einsum("shtm,mt->sht", out, W_U))


def _paths(model: Model, tokens: np.ndarray) -> dict[str, object]:
    """All paths with the right norm scales, and the error of the published division."""
    paths = list(all_paths(model.n_layers, model.n_heads))
    order = [paths.index(path) for path in _published_order(model)]

    def mistaken(seen: Run) -> Run:
        scales: Any = seen.trace.scales
        both = jnp.stack([scales.attention[0]] * 2)
        trace = seen.trace._replace(scales=scales._replace(attention=both))
        return Run(seen.model, seen.tokens, seen.logits, trace)

    def of_text(text: Array) -> dict[str, Array]:
        seen = over_mean_token(run(model, text))
        frozen = frozen_model(seen)
        unbiased = frozen._replace(b_V=None, b_O=None)
        terms = logits_of(path_streams(unbiased), frozen.read_out)[jnp.array(order)]
        return {
            "right": jnp.abs(expand(seen).remainder).max(),
            "wrong": jnp.abs(expand(mistaken(seen)).remainder).max(),
            "terms": terms[:, jnp.array(DETAIL_PLACES), DETAIL_TOKEN],
        }

    found = {name: np.asarray(value) for name, value in on_each(of_text, tokens).items()}
    centred = found["terms"][0] - found["terms"].mean(axis=0)
    return {
        "unique-closes": float(found["right"].max()),
        "unique-miss-of-each": found["wrong"],
        "unique-remainder-of-each": found["right"],
        "unique-detail": centred[[4, 7, 10, 13]].T,
    }


def _published_order(model: Model) -> list[tuple[tuple[int, int], ...]]:
    """Direct, heads of layer 0; then each of these into each head of layer 1."""
    first = [((0, head),) for head in range(model.n_heads)]
    starts: list[tuple[tuple[int, int], ...]] = [(), *first]
    return [*starts, *((*start, (1, head)) for start in starts for head in range(model.n_heads))]
