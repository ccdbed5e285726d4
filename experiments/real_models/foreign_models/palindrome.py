"""Measurements of July's palindrome classifier."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from circuitax.circuits.ledger.path_values import head_path_values
from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.circuits.paths.paths import all_paths, path_name
from circuitax.circuits.weights.folding import fold_norms
from circuitax.kernel.forward import forward
from circuitax.kernel.host_draws import host_generator
from circuitax.kernel.interventions import Interventions, NormScales
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run, run
from experiments.real_models.foreign_models.ablations import (
    ablated,
    mean_outputs,
    on_each,
    value_bias_writes,
)
from experiments.real_models.foreign_models.tasks import palindromes

LAST, SECOND = 21, np.arange(11, 21)  # where the answer is read; the second half
BLIND = (17, 19)
SELF_SHARE = 0.373  # the page's number, which scales its direct logit attribution


def read(model: Model, texts: int, key: jax.Array) -> dict[str, object]:
    """Losses, ablations, the circuit's attention, its paths, and where it is blind."""
    tokens, labels = (part[:texts] for part in palindromes(2500, 42))
    seen = palindromes(5000, 43)
    answers = np.asarray(on_each(lambda text: forward(model, text)[0][LAST], tokens))
    held_out = np.asarray(on_each(lambda text: forward(model, text)[0][LAST], seen.tokens[:texts]))
    wrong = tokens[answers.argmax(axis=1) != labels]
    at_blind = [_broken(row) <= set(BLIND) for row in wrong]
    means = mean_outputs(model, tokens)
    of_lead = (model, tokens, labels, _lead)
    found: dict[str, object] = {
        "palindrome-loss": float(np.mean(-_log_probs(answers)[np.arange(len(labels)), labels])),
        "palindrome-lead": float(_leads(answers, labels).mean()),
        "palindrome-accuracy": float((held_out.argmax(axis=1) == seen.labels[:texts]).mean()),
        "palindrome-mean-ablation": ablated(*of_lead, means),
        "palindrome-zero-ablation": ablated(*of_lead, value_bias_writes(model, LAST + 1)),
        "palindrome-zero-unfolded": ablated(*of_lead),
        "palindrome-loss-without": np.array(
            [_loss_without(model, tokens, labels, means, kept) for kept in (None, 20)]
        ),
        "palindrome-wrong": np.array([sum(at_blind), len(wrong) - sum(at_blind)]),
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


def _broken(row: np.ndarray) -> set[int]:
    """The positions of the second half whose token differs from their mirror's."""
    return {int(i) for i in SECOND if row[i] != row[LAST - i]}


def _loss_without(
    model: Model, tokens: np.ndarray, labels: np.ndarray, means: Array, kept: int | None
) -> float:
    """The loss with head 0.1's output replaced by its mean, at all positions or at all but one."""
    mask = jnp.zeros(means.shape[:3]).at[0, 1].set(1)
    if kept is not None:
        mask = mask.at[0, 1, kept].set(0)
    edit = Interventions(head_keep=1 - mask, head_add=mask[..., None] * means)

    def loss(text: Array, label: Array) -> Array:
        return -jax.nn.log_softmax(forward(model, text, edit)[0][LAST])[label]

    return float(on_each(loss, tokens, labels).mean())


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


def _attention(model: Model, tokens: np.ndarray) -> dict[str, object]:
    """Shift of head 0.0's attention from the mirror to itself at a broken pair; 1.0's from the end.

    Head 1.0's is that to each position of each text, with whether the pair is broken there.
    """
    both = on_each(lambda text: forward(model, text)[1].patterns[:, 0], tokens)
    first, second = np.asarray(both[:, 0]), np.asarray(both[:, 1])
    sighted = np.array([i for i in SECOND if i not in BLIND])
    equal = tokens[:, sighted] == tokens[:, LAST - sighted]
    own, mirror = first[:, sighted, sighted], first[:, sighted, LAST - sighted]
    turned = [x[~equal].mean() - x[equal].mean() for x in (own, -mirror)]
    read = second[:, LAST][:, sighted]
    return {
        "palindrome-turns": np.array(turned),
        "palindrome-read": read.astype(np.float32),
        "palindrome-broken": ~equal,
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
