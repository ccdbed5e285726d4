"""July's problem: an attention-only classifier of palindromes, its circuit and its blind spots."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, ArrayLike, Float

from circuitax.circuits.ledger.path_mass import head_path_values
from circuitax.circuits.patching import Ablation, ablated_metrics
from circuitax.circuits.paths.components import Components
from circuitax.circuits.paths.expansion import all_paths, path_name
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.circuits.weights.folding import fold_read, over_heads
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import host_generator
from circuitax.kernel.model import Model
from circuitax.kernel.run import run
from experiments.real_models.shared.arena_examples import broken_palindromes, palindromes
from experiments.real_models.shared.published_models import (
    Arrays,
    log_probabilities,
    of_labels,
    on_each,
)

LAST, SECOND = 21, np.arange(11, 21)  # where the answer is read; the second half
BLIND = (17, 19)
SIGHTED = np.array([i for i in SECOND if i not in BLIND])

Score = Callable[[Float[Array, "n_ctx d_vocab"], Any], Float[Array, ""]]


def palindrome(model: Model, texts: int, key: jax.Array) -> Arrays:
    """July's classifier: losses, ablations, the circuit's attention, paths, and its blind spots."""
    tokens, labels = (part[:texts] for part in palindromes(2500, 42))
    seen, right = (part[:texts] for part in palindromes(5000, 43))

    def answer(text: Array) -> Array:
        return forward(model, text)[0][LAST]

    def lead(logits: Array, label: Array) -> Array:
        return logits[LAST, label] - logits[LAST, 1 - label]

    def to_ends(text: Array) -> Array:
        return forward(model, text)[1].patterns[1, 0, LAST]

    answers = np.asarray(on_each(answer, tokens))
    own, other = of_labels(answers, labels), of_labels(answers, 1 - labels)
    wrong = answers.argmax(axis=1) != labels
    of_lead = (model, tokens, labels, lead)
    changed = _one_broken_pair(key, min(texts, 1000))
    called_so = np.asarray(on_each(answer, changed.reshape(-1, LAST + 1))).argmax(axis=1) == 1
    return {
        "palindrome-loss": float(np.mean(-of_labels(log_probabilities(answers), labels))),
        "palindrome-lead": float((own - other).mean()),
        "palindrome-accuracy": float(
            (np.asarray(on_each(answer, seen)).argmax(axis=1) == right).mean()
        ),
        "palindrome-mean-ablation": ablated(*of_lead, mean_outputs(model, tokens)),
        "palindrome-zero-ablation": ablated(*of_lead, value_bias_writes(model, LAST + 1)),
        "palindrome-zero-unfolded": ablated(*of_lead),
        "palindrome-wrong": _by_kind(tokens, wrong),
        "palindrome-turns": _turns(model, texts),
        "palindrome-called-so": called_so.reshape(changed.shape[:2]).mean(axis=1),
        "palindrome-read": np.asarray(on_each(to_ends, tokens)[:, SIGHTED], np.float32),
        "palindrome-broken": tokens[:, SIGHTED] != tokens[:, LAST - SIGHTED],
        "palindrome-is-one": labels == 1,
    } | _palindrome_paths(model, tokens)


def mean_outputs(model: Model, texts: ArrayLike) -> Float[Array, "layer head n_ctx d"]:
    """Mean over the texts of each head's output at each position."""

    def written(text: Array) -> Any:
        return forward(model, text, outputs=True)[1].head_outputs

    return jnp.mean(on_each(written, texts), axis=0)


def value_bias_writes(model: Model, n_ctx: int) -> Float[Array, "layer head n_ctx d"]:
    """``b_V W_O``, the norm's offset in b_V: the constant output of a head whose ``b_V`` is in b_O.

    Rows of a pattern sum to 1, so that a head always writes this. Zero ablation takes it away
    with the rest, unless it was folded into ``b_O`` before.
    """
    heads, blocks = model.blocks.attention, model.blocks
    per_head = over_heads(blocks.attention_norm)
    _, b_V = fold_read(heads.W_V, heads.b_V, model.spec.norm, per_head)
    if b_V is None:
        b_V = jnp.zeros(heads.W_O.shape[:3], heads.W_O.dtype)
    constant = jnp.einsum("lhk,lhkd->lhd", b_V, heads.W_O)
    return jnp.repeat(constant[:, :, None, :], n_ctx, axis=2)


def ablated(
    model: Model, texts: ArrayLike, labels: Any, score: Score, replacement: Any = None
) -> np.ndarray:
    """The mean score with each head replaced in turn, by zeros unless told, ``[layers * heads]``.

    The score is of the logits of one text and its label.
    """
    n = model.n_layers * model.n_heads
    cells = Ablation(jnp.eye(n).reshape(n, model.n_layers, model.n_heads))
    other = None
    if replacement is not None:
        other = Components(replacement[0, 0], None, replacement, None, None)

    def one(text: Array, label: Any) -> Array:
        return ablated_metrics(
            model, text, cells, lambda logits: score(logits, label), replacement=other
        )

    return np.asarray(on_each(one, texts, labels).mean(axis=0))


def _one_broken_pair(key: jax.Array, n: int) -> np.ndarray:
    """Palindromes with the token of one position of the second half changed, ``[place, n, 22]``."""
    draws = host_generator(key)
    half = draws.integers(0, 31, (n, 10))
    whole = np.pad(np.hstack([half, half[:, ::-1]]), ((0, 0), (1, 1)), constant_values=(31, 32))
    broken = np.repeat(whole[None], len(SECOND), axis=0)
    for k, i in enumerate(SECOND):
        broken[k, :, i] = (whole[:, i] + draws.integers(1, 31, n)) % 31
    return broken


def _by_kind(tokens: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Texts broken only at 17 or 19 that are answered wrong, others wrong, and the former right."""
    broken = {int(i): tokens[:, i] != tokens[:, LAST - i] for i in SECOND}
    at_blind = np.any([broken[i] for i in BLIND], axis=0)
    elsewhere = np.any([broken[i] for i in broken if i not in BLIND], axis=0)
    kind = at_blind & ~elsewhere
    return np.array([(kind & wrong).sum(), (~kind & wrong).sum(), (kind & ~wrong).sum()])


def _turns(model: Model, texts: int) -> np.ndarray:
    """Shift of head 0.0's attention to itself, and from the mirror, where all pairs are broken."""
    whole, broken = (
        np.asarray(on_each(lambda text: forward(model, text)[1].patterns[0, 0], part[:texts]))
        for part in broken_palindromes(1000, 42)
    )
    turned = broken - whole
    to_self, to_mirror = turned[:, SIGHTED, SIGHTED], turned[:, SIGHTED, LAST - SIGHTED]
    return np.array([to_self.mean(), -to_mirror.mean()])


def _palindrome_paths(model: Model, tokens: np.ndarray) -> Arrays:
    """Effect of each path on "no palindrome" in each text, and what is left of the logits."""
    paths = tuple(all_paths(model.n_layers, model.n_heads))

    def of_text(text: Array) -> tuple[Array, Array]:
        seen = run(model, text)
        frozen = frozen_model(seen)
        W_U, b_U = frozen.read_out.W_U, frozen.read_out.b_U
        values = head_path_values(frozen, paths, LAST, W_U[:, 0] - W_U[:, 1])
        bias = 0.0 if b_U is None else b_U[0] - b_U[1]
        return values, values.sum() + bias - (seen.logits[LAST, 0] - seen.logits[LAST, 1])

    values, left = on_each(of_text, tokens)
    return {
        "palindrome-paths": xr.DataArray(
            np.asarray(values, np.float32),
            {"path": [path_name(path) for path in paths]},
            ("text", "path"),
        ),
        "palindrome-closes": float(jnp.abs(left).max()),
    }
