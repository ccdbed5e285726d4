"""Measurements of the bracket classifier."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from circuitax.circuits.paths.components import component_logits, components_of, stacked
from circuitax.circuits.weights.folding import fold_read, over_heads
from circuitax.kernel.forward import forward
from circuitax.kernel.model import Model
from circuitax.kernel.norm import apply_norm
from circuitax.kernel.run import run
from experiments.real_models.foreign_models.ablations import on_each
from experiments.real_models.foreign_models.tasks import CLOSE, OPEN, PAD, TOWERS, brackets, tower

STRINGS = ("()()", "(())", "))((", "()")
# What writes to the stream, in the order of the printed contributions.
PARTS = ("embed", "0.0", "0.1", "mlp0", "1.0", "1.1", "mlp1", "2.0", "2.1", "mlp2")


def read(
    model: Model, texts: int, key: jax.Array, tokens: np.ndarray, labels: np.ndarray
) -> dict[str, object]:
    """Answers on strings and towers, who says "unbalanced" and when, and linear fits to the norm.

    Args:
        model: The model.
        texts: Most strings.
        key: Not used: nothing is drawn.
        tokens: Strings of the published data, padded.
        labels: 1 for a balanced string.
    """
    tokens, labels = tokens[:texts].astype(int), labels[:texts].astype(int)
    answers, streams, parts, left, looks = _by_length(model, tokens)
    towers = _balanced(model, np.stack([tower(i) for i in TOWERS]))
    direction, fit = _fit_of_final(model, streams)
    added = parts @ direction
    wrong = labels == 0
    of_part = added[wrong].mean(axis=0) - added[~wrong].mean(axis=0)
    total, negative = _failures(tokens)
    opens = wrong & (tokens[:, 1] == OPEN)
    # 0 for a balanced string, 1 to 3 as total, suffix or both are wrong, -1 where ")" is first.
    failure = np.where(wrong, np.where(opens, total + 2 * negative, -1), 0)
    of_last = added[:, [7, 8]]
    nothing = np.full(2, np.nan)  # of few strings none may fail in one of the ways
    by_failure = [
        of_last[failure == i].mean(axis=0) - of_last[~wrong].mean(axis=0)
        if (failure == i).any()
        else nothing
        for i in (1, 2, 3)
    ]
    return {
        "bracket-wrong": int((answers.argmax(axis=1) != labels).sum()),
        "bracket-tower": float(towers[TOWERS.index(30)]),
        "bracket-each-tower": towers,
        "bracket-strings": np.array(
            [float(_balanced(model, brackets(s)[None])[0]) for s in STRINGS]
        ),
        "bracket-fit": fit,
        "bracket-contributions": of_part,
        "bracket-by-failure": np.array(by_failure),
        "bracket-last-heads": of_last.astype(np.float32),
        "bracket-failure": failure.astype(np.int8),
        "bracket-total-first": float(looks[tokens[:, 1] == OPEN].mean()),
        "bracket-closes": float(left.max()),
        "bracket-opposite": _opposite(model),
    }


def _by_length(
    model: Model, tokens: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Answers, streams and parts at position 0: strings without their pads, by length."""

    def of_text(text: Array) -> tuple[Array, ...]:
        seen = run(model, text, outputs=True)
        parts = components_of(seen)
        first = jnp.concatenate([stacked(parts)[:, 0], jnp.zeros((1, model.d_model))])
        left = jnp.abs(component_logits(seen).remainder).max()
        looks = seen.trace.patterns[2, 0, 0, 1]
        return seen.logits[0], seen.trace.streams[-1, 0], first, left, looks

    lengths = (tokens != PAD).sum(axis=1)
    found: list[np.ndarray] = []
    for length in np.unique(lengths):
        rows = lengths == length
        for i, values in enumerate(on_each(of_text, tokens[rows, :length])):
            if len(found) <= i:
                found.append(np.zeros((len(tokens), *values.shape[1:])))
            found[i][rows] = values
    answers, streams, parts, left, looks = found
    # tokens, positions, six heads, three MLPs, three b_O: embed, then heads and MLP of each layer.
    embed = parts[:, 0] + parts[:, 1]
    heads, mlps = parts[:, 2:8], parts[:, 8:11]
    ordered = [embed]
    for layer in range(model.n_layers):
        ordered += [heads[:, 2 * layer], heads[:, 2 * layer + 1], mlps[:, layer]]
    return answers, streams, np.stack(ordered, axis=1), left, looks


def _balanced(model: Model, tokens: np.ndarray) -> np.ndarray:
    def of_text(text: Array) -> Array:
        return jax.nn.softmax(forward(model, text)[0][0])[1]

    return np.asarray(on_each(of_text, tokens))


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


def _failures(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether the total is wrong, and whether a suffix has more open brackets than closed ones."""
    steps = (tokens == CLOSE).astype(int) - (tokens == OPEN)
    heights = steps[:, ::-1].cumsum(axis=1)
    return heights[:, -1] != 0, (heights < 0).any(axis=1)


def _opposite(model: Model) -> float:
    """The cosine of head 0.0's outputs for "(" and for ")", the norm folded."""
    blocks = model.blocks
    per_head = over_heads(blocks.attention_norm)
    W_V, _ = fold_read(blocks.attention.W_V, None, model.spec.norm, per_head)
    left, right = (
        np.asarray(model.W_E[token] @ W_V[0, 0] @ blocks.attention.W_O[0, 0])
        for token in (OPEN, CLOSE)
    )
    return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right))
