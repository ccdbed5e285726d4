"""A classifier of balanced brackets: answers on strings and towers, and what its heads react to."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from circuitax.circuits.paths.components import components_of, stacked
from circuitax.circuits.weights.folding import fold_read, over_heads
from circuitax.kernel.forward import forward
from circuitax.kernel.model import Model
from circuitax.kernel.norm import apply_norm
from circuitax.kernel.run import run
from experiments.real_models.shared.published_models import Arrays, on_each

TOWERS = tuple(range(2, 38, 2))  # sizes of the first of two towers
OPEN, CLOSE, START, PAD, END = 3, 4, 0, 1, 2


def tower(i: int, n: int = 40) -> np.ndarray:
    """``A)(B`` with A and B towers of i and ``n - 2 - i`` brackets, between start and end.

    Source: ARENA 1.4, adversarial examples of the bracket classifier.
    """
    rise = {k: [OPEN] * (k // 2) + [CLOSE] * (k // 2) for k in (i, n - 2 - i)}
    return np.array([START, *rise[i], CLOSE, OPEN, *rise[n - 2 - i], END])


def brackets(model: Model, texts: int, strings: Path) -> Arrays:
    """The bracket classifier: answers on strings and towers, who says "unbalanced", and when.

    The file has the strings of the published data, padded; the label of a balanced one is 1.
    """
    with np.load(strings) as data:
        tokens = data["dataset_tokens"][:texts].astype(int)
        labels = data["dataset_labels"][:texts].astype(int)
    answers, streams, last = _by_length(model, tokens)
    direction, fit = _fit_of_final(model, streams)
    steps = (tokens == CLOSE).astype(int) - (tokens == OPEN)
    heights = steps[:, ::-1].cumsum(axis=1)
    total, suffix = heights[:, -1] != 0, (heights < 0).any(axis=1)
    # 0 for a balanced string, 1 to 3 as total, suffix or both are wrong, -1 where ")" is first.
    failure = np.where(labels == 0, np.where(tokens[:, 1] == OPEN, total + 2 * suffix, -1), 0)
    towers = np.stack([tower(i) for i in TOWERS])
    balanced = on_each(lambda text: jax.nn.softmax(forward(model, text)[0][0])[1], towers)
    per_head = over_heads(model.blocks.attention_norm)
    W_V, _ = fold_read(model.blocks.attention.W_V, None, model.spec.norm, per_head)
    one, two = (
        np.asarray(model.W_E[token] @ W_V[0, 0] @ model.blocks.attention.W_O[0, 0])
        for token in (OPEN, CLOSE)
    )
    return {
        "bracket-wrong": int((answers.argmax(axis=1) != labels).sum()),
        "bracket-each-tower": np.asarray(balanced),
        "bracket-fit": fit,
        "bracket-last-heads": (last @ direction).astype(np.float32),
        "bracket-failure": failure.astype(np.int8),
        "bracket-opposite": float(one @ two / np.linalg.norm(one) / np.linalg.norm(two)),
    }


def _by_length(model: Model, tokens: np.ndarray) -> list[np.ndarray]:
    """Answers, streams and both last heads at position 0, of strings without their pads."""

    def of_text(text: Array) -> tuple[Array, ...]:
        seen = run(model, text, outputs=True)
        # Tokens, positions, six heads, three MLPs and three b_O.
        last = stacked(components_of(seen))[6:8, 0]
        return seen.logits[0], seen.trace.streams[-1, 0], last

    lengths = (tokens != PAD).sum(axis=1)
    found: list[np.ndarray] = []
    for length in np.unique(lengths):
        rows = lengths == length
        for i, values in enumerate(on_each(of_text, tokens[rows, :length])):
            if len(found) <= i:
                found.append(np.zeros((len(tokens), *values.shape[1:])))
            found[i][rows] = values
    return found


def _fit_of_final(model: Model, streams: np.ndarray) -> tuple[np.ndarray, float]:
    """The direction of "unbalanced" through a linear fit to the final norm, and the fit's R²."""
    normed, _ = apply_norm(
        jnp.asarray(streams), model.spec.norm, model.spec.norm_eps, model.final_norm, None
    )
    wanted = np.asarray(normed)
    known = np.hstack([streams, np.ones((len(streams), 1))])
    slope = np.linalg.lstsq(known, wanted, rcond=None)[0]
    rest = wanted - known @ slope
    spread = wanted - wanted.mean(axis=0)
    share = 1 - (rest**2).sum(axis=0) / (spread**2).sum(axis=0)
    W_U = np.asarray(model.W_U)
    return slope[:-1] @ (W_U[:, 0] - W_U[:, 1]), float(share.mean())
