"""Measurements of July's palindrome classifier."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from circuitax.circuits.ledger.path_mass import head_path_values
from circuitax.circuits.paths.expansion import all_paths, path_name
from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.circuits.weights.folding import fold_norms
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions, NormScales
from circuitax.kernel.keys import host_generator
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run, run
from experiments.real_models.foreign_models.ablations import (
    ablated,
    mean_outputs,
    on_each,
    value_bias_writes,
)
from experiments.real_models.foreign_models.tasks import broken_palindromes, palindromes

LAST, SECOND = 21, np.arange(11, 21)  # where the answer is read; the second half
BLIND = (17, 19)
SIGHTED = np.array([i for i in SECOND if i not in BLIND])
SELF_SHARE = 0.373  # the page's number, which scales its direct logit attribution


def read(model: Model, texts: int, key: jax.Array) -> dict[str, object]:
    """Losses, ablations, the circuit's attention, its paths, and where it is blind."""
    tokens, labels = (part[:texts] for part in palindromes(2500, 42))
    seen = palindromes(5000, 43)
    answers = np.asarray(on_each(lambda text: forward(model, text)[0][LAST], tokens))
    held_out = np.asarray(on_each(lambda text: forward(model, text)[0][LAST], seen.tokens[:texts]))
    wrong = answers.argmax(axis=1) != labels
    means = mean_outputs(model, tokens)
    of_lead = (model, tokens, labels, _lead)
    found: dict[str, object] = {
        "palindrome-loss": float(np.mean(-_log_probs(answers)[np.arange(len(labels)), labels])),
        "palindrome-lead": float(_leads(answers, labels).mean()),
        "palindrome-accuracy": float((held_out.argmax(axis=1) == seen.labels[:texts]).mean()),
        "palindrome-mean-ablation": ablated(*of_lead, means),
        "palindrome-zero-ablation": ablated(*of_lead, value_bias_writes(model, LAST + 1)),
        "palindrome-zero-unfolded": ablated(*of_lead),
        "palindrome-loss-without": _losses_without(model, tokens, labels),
        "palindrome-wrong": _by_kind(tokens, wrong),
        "palindrome-turns": _turns(model, texts),
        "palindrome-called-so": _one_broken_pair(model, key, min(texts, 1000)),
    }
    return (
        found
        | _attention(model, tokens)
        | _circuit(model, tokens, labels)
        | _paths(model, tokens, labels)
    )


def _lead(logits: Float[Array, "n_ctx d_vocab"], label: Array) -> Array:
    return logits[LAST, label] - logits[LAST, 1 - label]


def _leads(answers: np.ndarray, labels: np.ndarray) -> np.ndarray:
    rows = np.arange(len(labels))
    return answers[rows, labels] - answers[rows, 1 - labels]


def _log_probs(logits: np.ndarray) -> np.ndarray:
    return np.asarray(jax.nn.log_softmax(logits, axis=-1))


def _by_kind(tokens: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Texts broken only at 17 or 19 that are answered wrong, others wrong, and the former right."""
    broken = {int(i): tokens[:, i] != tokens[:, LAST - i] for i in SECOND}
    at_blind = np.any([broken[i] for i in BLIND], axis=0)
    elsewhere = np.any([broken[i] for i in broken if i not in BLIND], axis=0)
    kind = at_blind & ~elsewhere
    return np.array([(kind & wrong).sum(), (~kind & wrong).sum(), (kind & ~wrong).sum()])


def _losses_without(model: Model, tokens: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Losses with 0.1's output at its mean everywhere and at all but 20; so with 1.1's values.

    Values are affine in what the head reads, so that the mean of what it reads gives their mean.
    """
    folded = fold_norms(model)
    means = mean_outputs(folded, tokens)

    def read(text: Array) -> Array:
        trace: Any = forward(folded, text)[1]
        return trace.streams[1] / trace.scales.attention[1][:, None]

    mean_read = on_each(read, tokens).mean(axis=0)
    nowhere = jnp.zeros(means.shape[:3])

    def of_text(text: Array, label: Array) -> Array:
        moved, losses = (mean_read - read(text))[None, None], []
        for head in ((0, 1), (1, 1)):
            whole = nowhere.at[head].set(1)
            for mask in (whole, whole.at[..., 20].set(0)):
                if head[0] == 0:
                    edit = Interventions(head_keep=1 - mask, head_add=mask[..., None] * means)
                else:
                    edit = Interventions(value_add=mask[..., None] * moved)
                logits = forward(folded, text, edit)[0][LAST]
                losses.append(-jax.nn.log_softmax(logits)[label])
        return jnp.stack(losses)

    return np.asarray(on_each(of_text, tokens, labels).mean(axis=0))


def _one_broken_pair(model: Model, key: jax.Array, n: int) -> np.ndarray:
    """The share of palindromes with one token changed that the model still calls palindromes."""
    draws = host_generator(key)
    half = draws.integers(0, 31, (n, 10))
    whole = np.pad(np.hstack([half, half[:, ::-1]]), ((0, 0), (1, 1)), constant_values=(31, 32))
    broken = np.repeat(whole[None], len(SECOND), axis=0)
    for k, i in enumerate(SECOND):
        broken[k, :, i] = (whole[:, i] + draws.integers(1, 31, n)) % 31
    flat = broken.reshape(-1, LAST + 1)
    answers = np.asarray(on_each(lambda text: forward(model, text)[0][LAST], flat))
    return (answers.argmax(axis=1) == 1).reshape(len(SECOND), n).mean(axis=1)


def _turns(model: Model, texts: int) -> np.ndarray:
    """Shift of head 0.0's attention to itself, and from the mirror, where all pairs are broken."""
    whole, broken = (
        np.asarray(on_each(lambda text: forward(model, text)[1].patterns[0, 0], part[:texts]))
        for part in broken_palindromes(1000, 42)
    )
    turned = broken - whole
    to_self, to_mirror = turned[:, SIGHTED, SIGHTED], turned[:, SIGHTED, LAST - SIGHTED]
    return np.array([to_self.mean(), -to_mirror.mean()])


def _attention(model: Model, tokens: np.ndarray) -> dict[str, object]:
    """Head 1.0's attention from the end to each position of each text, and what is broken there."""
    read = on_each(lambda text: forward(model, text)[1].patterns[1, 0, LAST], tokens)
    return {
        "palindrome-read": np.asarray(read[:, SIGHTED], np.float32),
        "palindrome-broken": tokens[:, SIGHTED] != tokens[:, LAST - SIGHTED],
    }


def _circuit(model: Model, tokens: np.ndarray, labels: np.ndarray) -> dict[str, object]:
    """The difference vector of each mirrored pair: its keys, and its effect on the answer."""

    def of_text(text: Array) -> tuple[NormScales, Array]:
        trace: Any = forward(model, text)[1]
        return trace.scales, trace.streams[1, LAST] / trace.scales.attention[1, LAST]

    scales, ends = on_each(of_text, tokens)
    first, second = np.asarray(scales.attention.mean(axis=0))
    final = float(np.asarray(scales.final)[labels == 0, LAST].mean())
    folded = fold_norms(model)
    heads: Any = folded.blocks.attention
    p: Any = jnp.asarray(folded.W_pos) / first[:, None]
    moved = (p[SECOND] - p[LAST - SECOND]) @ heads.W_V[0, 0] @ heads.W_O[0, 0]
    queries = jnp.einsum("d,hdk->hk", ends.mean(axis=0), heads.W_Q[1]) + heads.b_Q[1]
    keys = jnp.einsum("id,hdk->hik", moved, heads.W_K[1])
    along = jnp.einsum("hik,hk->hi", keys, queries)
    cosines = along / (jnp.linalg.norm(keys, axis=-1) * jnp.linalg.norm(queries, axis=-1)[:, None])
    answer = (folded.W_U[:, 0] - folded.W_U[:, 1]) / final
    read = SELF_SHARE * moved / second[SECOND][:, None]
    added = jnp.einsum("id,hdk,hkm,m->hi", read, heads.W_V[1], heads.W_O[1], answer)
    return {"palindrome-cosines": np.asarray(cosines), "palindrome-direct": np.asarray(added)}


def _paths(model: Model, tokens: np.ndarray, labels: np.ndarray) -> dict[str, object]:
    """Effect of each path on "no palindrome" in each text, which are palindromes, and the sum."""
    paths = tuple(all_paths(model.n_layers, model.n_heads))

    def of_text(text: Array) -> tuple[Array, Array]:
        seen = run(model, text)
        frozen = frozen_model(seen)
        values = head_path_values(frozen, paths, LAST, _direction(frozen))
        return values, values.sum() + _bias(frozen) - _against(seen)

    values, left = on_each(of_text, tokens)
    return {
        "palindrome-paths": np.asarray(values, np.float32),
        "palindrome-is-one": labels == 1,
        "palindrome-path-names": [path_name(path) for path in paths],
        "palindrome-closes": float(jnp.abs(left).max()),
    }


def _direction(frozen: FrozenModel) -> Array:
    W_U = frozen.read_out.W_U
    return W_U[:, 0] - W_U[:, 1]


def _bias(frozen: FrozenModel) -> Array | float:
    b_U = frozen.read_out.b_U
    return 0.0 if b_U is None else b_U[0] - b_U[1]


def _against(seen: Run) -> Array:
    return seen.logits[LAST, 0] - seen.logits[LAST, 1]
