"""What is measured of each model: losses, ablations, attention, paths and closing sums."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from circuitax.circuits.ledger.path_mass import head_path_values
from circuitax.circuits.patching import Ablation, ablated_metrics
from circuitax.circuits.paths.components import (
    Components,
    component_logits,
    components_of,
    over_mean_token,
    stacked,
)
from circuitax.circuits.paths.expansion import all_paths, expand, path_name
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.circuits.weights.folding import fold_norms, fold_read, over_heads
from circuitax.kernel.forward import batch_logits, forward
from circuitax.kernel.gauge import centre_last, centre_vocabulary
from circuitax.kernel.keys import host_generator
from circuitax.kernel.model import Model
from circuitax.kernel.norm import apply_norm
from circuitax.kernel.run import Run, run
from experiments.real_models.foreign_models import examples
from experiments.real_models.foreign_models.examples import (
    CLOSE,
    NONE,
    OPEN,
    PAD,
    TOWERS,
)

BLOCK = 500  # texts that run at once
LAST, SECOND = 21, np.arange(11, 21)  # palindromes: where the answer is read; the second half
BLIND = (17, 19)
SIGHTED = np.array([i for i in SECOND if i not in BLIND])
LETTERS, ADVERSARIAL = "abcdefghij?", "?ggbbiihaggbigbigbig"
# Neurons that fire, by the page's text, where the running mean is positive, and where negative.
ON_POSITIVE, ON_NEGATIVE = (0, 1, 3, 4), (2, 7)
NEGATIVE, ZERO, POSITIVE = range(3)

Arrays = dict[str, Any]
Score = Callable[[Float[Array, "n_ctx d_vocab"], Any], Float[Array, ""]]


def on_each(of_text: Callable[..., Any], *texts: Any) -> Any:
    """A function of one text, compiled, on many of them; a block at a time where there are many."""
    rows = jax.tree.map(jnp.asarray, texts)
    if len(rows[0]) <= BLOCK:
        return jax.jit(jax.vmap(of_text))(*rows)
    return jax.jit(lambda *all: jax.lax.map(lambda row: of_text(*row), all, batch_size=BLOCK))(
        *rows
    )


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


def _log_probs(logits: Any) -> np.ndarray:
    return np.asarray(jax.nn.log_softmax(logits, axis=-1))


def _of_labels(log_probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.take_along_axis(log_probs, labels[..., None], axis=-1)[..., 0]


def palindrome(model: Model, texts: int, key: jax.Array) -> Arrays:
    """July's classifier: losses, ablations, the circuit's attention, paths, and its blind spots."""
    tokens, labels = (part[:texts] for part in examples.palindromes(2500, 42))
    seen, right = (part[:texts] for part in examples.palindromes(5000, 43))

    def answer(text: Array) -> Array:
        return forward(model, text)[0][LAST]

    def lead(logits: Array, label: Array) -> Array:
        return logits[LAST, label] - logits[LAST, 1 - label]

    def to_ends(text: Array) -> Array:
        return forward(model, text)[1].patterns[1, 0, LAST]

    answers = np.asarray(on_each(answer, tokens))
    own, other = _of_labels(answers, labels), _of_labels(answers, 1 - labels)
    wrong = answers.argmax(axis=1) != labels
    of_lead = (model, tokens, labels, lead)
    changed = _one_broken_pair(key, min(texts, 1000))
    called_so = np.asarray(on_each(answer, changed.reshape(-1, LAST + 1))).argmax(axis=1) == 1
    return {
        "palindrome-loss": float(np.mean(-_of_labels(_log_probs(answers), labels))),
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
        for part in examples.broken_palindromes(1000, 42)
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
        "palindrome-paths": np.asarray(values, np.float32),
        "palindrome-path-names": [path_name(path) for path in paths],
        "palindrome-closes": float(jnp.abs(left).max()),
    }


def first_unique(model: Model, texts: int, key: jax.Array) -> Arrays:
    """August's model: losses, attention to copies, paths, and paths over the wrong norm scale."""
    tokens, labels = (part[:texts] for part in examples.first_unique(1000, 42))
    seen, right = (part[:texts] for part in examples.first_unique(5000, 43))
    logits = np.asarray(on_each(lambda text: forward(model, text)[0], tokens))
    held_out = np.asarray(on_each(lambda text: forward(model, text)[0].argmax(axis=-1), seen))
    own = _of_labels(_log_probs(logits), labels)
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
        "unique-remainder-of-each": right,
    }


def running_sign(model: Model, texts: int, key: jax.Array) -> Arrays:
    """November's model: losses of the file's function and of the page's; weights; attention."""
    tokens, labels = (part[:texts] for part in examples.running_signs(1000, 42))
    seen, right = (part[:texts] for part in examples.running_signs(10_000, 43))
    centred = centre_writers(model)
    own, other = (_of_model(of, tokens) for of in (model, centred))
    silenced = [
        _summary(_of_model(_without(of, range(of.d_mlp or 0)), tokens), labels)
        for of in (model, centred)
    ]
    intact = float(-_of_labels(other, labels).mean())
    without_each = [_of_model(_without(centred, (i,)), tokens) for i in range(model.d_mlp or 0)]
    return {
        "sign-fit": _summary(own, labels),
        "sign-fit-centred": _summary(other, labels),
        "sign-accuracy": float((_of_model(model, seen).argmax(axis=-1) == right).mean()),
        "sign-silenced": silenced[0],
        "sign-silenced-centred": silenced[1],
        "sign-neurons-centred": np.array(
            [float(-_of_labels(of, labels).mean()) - intact for of in without_each]
        ),
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
    return _log_probs(jax.jit(batch_logits)(model, jnp.asarray(tokens)))


def _summary(log_probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The loss, and the mean, median and least probability of the right answer."""
    own = _of_labels(log_probs, labels)
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
    W_U = np.asarray(centre_vocabulary(model.W_U))
    neg, zero, pos = W_U[:, NEGATIVE], W_U[:, ZERO], W_U[:, POSITIVE]
    pairs = ((u, pos), (u, neg), (neg, pos), (pos, zero), (neg, zero))
    return np.array([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs])


def _running_mean(model: Model, tokens: np.ndarray) -> Arrays:
    """Evenness of attention, fit of the head's output, firing of neurons by side, and the sum."""
    heads: Any = model.blocks.attention
    mlp: Any = model.blocks.mlp
    u = jnp.asarray(_values_svd(model)[2][0])

    def of_text(text: Array) -> tuple[Array, ...]:
        seen = run(model, text, outputs=True)
        trace: Any = seen.trace
        written = trace.head_outputs[0].sum(axis=0)
        middle = trace.streams[0] + written + heads.b_O[0][None]
        fired = jax.nn.relu(middle @ mlp.W_in[0] + mlp.b_in[0][None])
        left = jnp.abs(component_logits(seen).remainder).max()
        return trace.patterns[0, 0], written @ u, fired, left

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


def brackets(model: Model, texts: int, tokens: np.ndarray, labels: np.ndarray) -> Arrays:
    """The bracket classifier: answers on strings and towers, who says "unbalanced", and when.

    Tokens are the strings of the published data, padded; the label of a balanced one is 1.
    """
    tokens, labels = tokens[:texts].astype(int), labels[:texts].astype(int)
    answers, streams, last, left = _by_length(model, tokens)
    direction, fit = _fit_of_final(model, streams)
    wrong = labels == 0
    steps = (tokens == CLOSE).astype(int) - (tokens == OPEN)
    heights = steps[:, ::-1].cumsum(axis=1)
    total, suffix = heights[:, -1] != 0, (heights < 0).any(axis=1)
    # 0 for a balanced string, 1 to 3 as total, suffix or both are wrong, -1 where ")" is first.
    failure = np.where(wrong, np.where(tokens[:, 1] == OPEN, total + 2 * suffix, -1), 0)
    towers = np.stack([examples.tower(i) for i in TOWERS])
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
        "bracket-closes": float(left.max()),
        "bracket-opposite": float(one @ two / np.linalg.norm(one) / np.linalg.norm(two)),
    }


def _by_length(model: Model, tokens: np.ndarray) -> list[np.ndarray]:
    """Answers, streams, both last heads, remainders at position 0: strings without their pads."""

    def of_text(text: Array) -> tuple[Array, ...]:
        seen = run(model, text, outputs=True)
        # Tokens, positions, six heads, three MLPs and three b_O.
        last = stacked(components_of(seen))[6:8, 0]
        left = jnp.abs(component_logits(seen).remainder).max()
        return seen.logits[0], seen.trace.streams[-1, 0], last, left

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
