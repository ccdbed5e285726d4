"""August's problem: an attention-only model that tells the first letter that occurred once."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from circuitax.circuits.paths.components import over_mean_token
from circuitax.circuits.paths.expansion import expand
from circuitax.circuits.weights.folding import fold_norms
from circuitax.kernel.forward import forward
from circuitax.kernel.gauge import centre_vocabulary
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run, run
from experiments.real_models.shared.arena_examples import NO_LETTER, unique_letters
from experiments.real_models.shared.published_models import (
    Arrays,
    log_probabilities,
    of_labels,
    on_each,
)

LETTERS, ADVERSARIAL = "abcdefghij?", "?ggbbiihaggbigbigbig"


def first_unique(model: Model, texts: int) -> Arrays:
    """August's model: losses, attention to copies, paths, and paths over the wrong norm scale."""
    tokens, labels = (part[:texts] for part in unique_letters(1000, 42))
    seen, right = (part[:texts] for part in unique_letters(5000, 43))
    logits = np.asarray(on_each(lambda text: forward(model, text)[0], tokens))
    held_out = np.asarray(on_each(lambda text: forward(model, text)[0].argmax(axis=-1), seen))
    own = of_labels(log_probabilities(logits), labels)
    said = np.asarray(forward(model, [LETTERS.index(c) for c in ADVERSARIAL])[0]).argmax(axis=-1)
    return {
        "unique-loss": float(-own.mean()),
        "unique-probability": float(np.exp(own).mean()),
        "unique-least": float(np.exp(own).min()),
        "unique-accuracy": float((held_out == right).mean()),
        "unique-adversarial-shares": np.array(
            [(said[7:9] == LETTERS.index("h")).mean(), (said[9:] == LETTERS.index("a")).mean()]
        ),
        "unique-copies": _to_copies(model, tokens),
        "unique-own-logits": _own_logits(model, tokens),
    } | _misses(model, tokens)


def _to_copies(model: Model, tokens: np.ndarray) -> np.ndarray:
    """Attention of layer 0 to earlier copies of the own letter, ``[head, letter]``."""
    patterns = np.asarray(on_each(lambda text: forward(model, text)[1].patterns[0], tokens))
    same = (tokens[:, :, None] == tokens[:, None, :]) & np.tri(tokens.shape[1], k=-1, dtype=bool)
    given = np.where(same[:, None], patterns, 0).sum(axis=-1)
    again = same.any(axis=-1)
    rows = [given.transpose(0, 2, 1)[again & (tokens == letter)] for letter in range(NO_LETTER)]
    return np.stack([row.mean(axis=0) for row in rows], axis=1)


def _own_logits(model: Model, tokens: np.ndarray) -> Float[np.ndarray, "step head letter"]:
    """Contribution of a letter to its own logit by each path of layer 1, at mean norm scales."""
    scales = on_each(lambda text: forward(model, text)[1].scales, tokens)
    first, second = np.asarray(scales.attention)[:, :, 1:].mean(axis=(0, 2))
    final = float(np.asarray(scales.final)[:, 1:].mean())
    folded = fold_norms(model)
    heads = folded.blocks.attention
    W_OV = jnp.einsum("lhdk,lhkm->lhdm", heads.W_V, heads.W_O)
    embedded = folded.W_E[:NO_LETTER]
    written = jnp.einsum("td,hdm->htm", embedded / first, W_OV[0])
    read = jnp.concatenate([embedded[None], written]) / second
    out = jnp.einsum("std,hdm->shtm", read, W_OV[1]) / final
    W_U = centre_vocabulary(folded.W_U)[:, :NO_LETTER]
    return np.asarray(jnp.einsum("shtm,mt->sht", out, W_U))


def _misses(model: Model, tokens: np.ndarray) -> Arrays:
    """What all paths leave of the logits, over the right norm scale and the published one."""

    def mistaken(seen: Run) -> Run:
        scales: Any = seen.trace.scales
        both = jnp.stack([scales.attention[0]] * 2)
        trace = seen.trace._replace(scales=scales._replace(attention=both))
        return Run(seen.model, seen.tokens, seen.logits, trace)

    def of_text(text: Array) -> tuple[Array, Array]:
        seen = over_mean_token(run(model, text))
        right, wrong = (expand(which).remainder for which in (seen, mistaken(seen)))
        return jnp.abs(right).max(), jnp.abs(wrong).max()

    right, wrong = (np.asarray(left) for left in on_each(of_text, tokens))
    return {
        "unique-closes": float(right.max()),
        "unique-miss-of-each": wrong,
    }
