"""Heads recognised by their attention: previous tokens, duplicates, prefixes, copying, repeats.

Of MLP units: where they fire, and the rate at which the tokens that they raise come next.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from circuitax.circuits.paths.components import (
    attribute_sources,
    read_out_of,
    token_directions,
    value_weighted,
)
from circuitax.circuits.weights.heads import unembedding
from circuitax.display.tables import NumberTable, documented
from circuitax.kernel.attention import causal_mask
from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import forward, next_token_losses, token_ids
from circuitax.kernel.gauge import centre_last, centre_vocabulary
from circuitax.kernel.linalg import cosine, safe_divide
from circuitax.kernel.model import Model, check_next_tokens, check_one_member
from circuitax.kernel.run import Run, one_text
from circuitax.kernel.shown import known, largest, tabled


class Detection(NamedTuple):
    """Mean attention on a mask, and its value for uniform attention.

    Attributes:
        score: Mean over destinations with a marked source of ``Σ_src A · mask``, in [0, 1].
        null: The score of uniform attention over the sources that a destination may read.
        n_dest: Destinations that have a marked source; at 0 the score and its null are 0.
    """

    score: Float[Array, "*heads"]
    null: Float[Array, ""]
    n_dest: Int[Array, ""]


def detect(
    pattern: Float[Array, "*heads dest src"],
    mask: Bool[Array, "dest src"],
    *,
    causal: bool = True,
    window: int | None = None,
) -> Detection:
    """The mean attention on a mask, for every head at once.

    ``score = mean over {t : mask_t ≠ 0} of Σ_s A_ts mask_ts``.

    Source: induction-heads paper, "prefix matching" (mean attention to the marked positions).
    Differs: a destination without any marked source is left out of the mean.
    """
    dest, src = (jnp.arange(size) for size in mask.shape)
    allowed = causal_mask(dest, src, causal, window)
    marked = mask & allowed
    counts = marked.any(axis=-1)
    n_dest = counts.sum()
    weight = jnp.asarray(n_dest, pattern.dtype)
    on_mask = jnp.einsum("...ts,ts->...", pattern, marked.astype(pattern.dtype))
    share = marked.sum(axis=-1) / allowed.sum(axis=-1)
    uniform = jnp.sum(share.astype(pattern.dtype))
    score = safe_divide(on_mask, jnp.broadcast_to(weight, on_mask.shape))
    return Detection(score, safe_divide(uniform, weight), n_dest)


def previous_mask(tokens: Int[Array, " n_ctx"], offset: int = 1) -> Bool[Array, "n_ctx n_ctx"]:
    """The position ``offset`` steps back; 1 is the previous token, 0 the present one."""
    n_ctx = tokens.shape[0]
    return jnp.eye(n_ctx, k=-offset, dtype=bool)


def duplicate_mask(tokens: Int[Array, " n_ctx"]) -> Bool[Array, "n_ctx n_ctx"]:
    """Earlier positions with the same token: ``x_s = x_t``, s < t."""
    return jnp.tril(_same(tokens), k=-1)


def prefix_mask(tokens: Int[Array, " n_ctx"]) -> Bool[Array, "n_ctx n_ctx"]:
    """Positions that follow an earlier occurrence of the present token: ``x_{s-1} = x_t``, s <= t.

    Source: induction-heads paper, prefix matching, as corrected on 2022-09-20 ("followed by").
    """
    return jnp.pad(duplicate_mask(tokens)[:, :-1], ((0, 0), (1, 0)))


def induction_mask(tokens: Int[Array, " n_ctx"]) -> Bool[Array, "n_ctx n_ctx"]:
    """Prefix matches that hold the true next token: also ``x_s = x_{t+1}``."""
    right_guess = tokens[None, :] == jnp.roll(tokens, -1)[:, None]
    known = jnp.arange(tokens.shape[0]) < tokens.shape[0] - 1
    return prefix_mask(tokens) & right_guess & known[:, None]


class ShuffledNull(NamedTuple):
    """Mean and standard deviation of scores when tokens are shuffled under fixed patterns."""

    mean: Float[Array, "*heads"]
    std: Float[Array, "*heads"]


def shuffled_null(
    key: Key[Array, ""],
    pattern: Float[Array, "*heads dest src"],
    tokens: Int[Array, " n_ctx"],
    mask_of: Callable[[Int[Array, " n_ctx"]], Bool[Array, "n_ctx n_ctx"]],
    *,
    n_shuffles: int = 64,
    causal: bool = True,
) -> ShuffledNull:
    """Null distribution of scores on token masks: patterns fixed, tokens shuffled."""

    def one(key: Key[Array, ""]) -> Float[Array, "*heads"]:
        return detect(pattern, mask_of(jax.random.permutation(key, tokens)), causal=causal).score

    scores = jax.vmap(one)(jax.random.split(key, n_shuffles))
    return ShuffledNull(scores.mean(axis=0), scores.std(axis=0, ddof=1))


def _same(tokens: Int[Array, " n_ctx"]) -> Bool[Array, "n_ctx n_ctx"]:
    return tokens[:, None] == tokens[None, :]


class HeadCopying(NamedTuple):
    """Means over the positions of one text, of every head.

    Attributes:
        raised: Share of all that a head raises which it raises on tokens that it attends to, in [0,
            1].
        cosine: Cosine of what a head does to the logits with what it attends to, in [-1, 1].
    """

    raised: Float[Array, "n_layers n_heads"]
    cosine: Float[Array, "n_layers n_heads"]


def head_copying(run: Run) -> HeadCopying:
    r"""Compare the tokens that each head raises with the tokens that it attends to.

    For a head at position t, let ``r`` be what its output does to the logits, less its mean, and
    ``a_v`` the attention that it pays to all sources with token v. Then ``raised`` is
    ``Σ_v max(r_v, 0) a_v / max a`` over ``Σ_v max(r_v, 0)``, and ``cosine`` is that of r with a
    less its mean. A head that writes what it attends to has 1 and 1, one that takes it back 0
    and -1, and a random one the share of tokens that it attends to, and 0.

    Source: induction-heads paper, evaluator "copying" (25 random tokens, outputs through the direct
        path, less the mean, through a ReLU).
    Differs: tokens are weighted by attention and the share is not rescaled to [-1, 1]: the paper's
        account of its rescaling does not fit its definition. The cosine is ours.
    """
    one_text(run)
    outputs = run.trace.head_outputs
    if outputs is None:
        raise ValueError("run must be made with outputs=True")
    raises = centre_last(outputs @ unembedding(run.model))
    is_token = jax.nn.one_hot(run.tokens, run.model.d_vocab, dtype=raises.dtype)
    attended = run.trace.patterns @ is_token
    up = jnp.maximum(raises, 0)
    most = attended.max(axis=-1, keepdims=True)
    share = safe_divide((up * attended / most).sum(axis=-1), up.sum(axis=-1))
    return HeadCopying(share.mean(axis=-1), cosine(raises, centre_last(attended)).mean(axis=-1))


def sums_at_repeats(run: Run, repeats: Bool[Array, " n_losses"]) -> dict[str, Array]:
    """Sums over the predictions that repeat an earlier pair, for each head.

    Returns:
        ``moved``, value-weighted attention; ``on_match``, its part on tokens that follow an earlier
        copy of the present one and are the next one; ``hits``, how often a head looks most at one
        of these; ``raised``, the direct effect on the next token's logit over that on the mean
        token; and ``n_repeats``, the number of predictions.
    """
    text, trace = one_text(run).tokens, run.trace
    match = induction_mask(text)[:-1] & repeats[:, None]
    counted = repeats.astype(trace.patterns.dtype)[None, None]
    moved = value_weighted(run)[:, :, :-1]
    looks = trace.patterns[:, :, :-1]
    top = jnp.argmax(looks, axis=-1, keepdims=True)
    hit = jnp.take_along_axis(jnp.broadcast_to(match, looks.shape), top, axis=-1)
    read_out = read_out_of(run)
    read_out = read_out._replace(W_U=centre_vocabulary(read_out.W_U))
    directions = token_directions(read_out, jnp.roll(text, -1))
    effect = attribute_sources(run, directions).sum(axis=-1)
    return {
        "moved": (moved.sum(axis=-1) * counted).sum(axis=-1),
        "on_match": jnp.where(match[None, None], moved, 0).sum(axis=(2, 3)),
        "hits": hit[..., 0].sum(axis=-1),
        "raised": (effect[:, :, :-1] * counted).sum(axis=-1),
        "n_repeats": repeats.sum(),
    }


def shares_at_repeats(sums: dict[str, Array]) -> dict[str, Float[Array, "n_layers n_heads"]]:
    """Shares and means of each head at repeats.

    Returns:
        ``stripes``, the share of value-weighted attention that lies on matches; ``top_is_match``,
        the share of repeats where a head looks most at a match; ``raises``, the mean direct effect
        in logits. All are 0 where nothing repeats.
    """
    n = jnp.broadcast_to(sums["n_repeats"].astype(sums["moved"].dtype), sums["moved"].shape)
    return {
        "stripes": safe_divide(sums["on_match"], sums["moved"]),
        "top_is_match": safe_divide(sums["hits"].astype(n.dtype), n),
        "raises": safe_divide(sums["raised"], n),
    }


@tabled
@documented
class InductionScores(NamedTuple):
    """Means over texts; scores are shares of attention, losses are nats.

    Attributes:
        loss_by_position: Entry t is the loss on token t + 1.
        prefix: Attention to positions that follow an earlier occurrence of the present token.
        previous: Attention to the position before.
        chance: The prefix score of uniform attention over what a head may read; of layers without
            window, where some have one and others none.
    """

    loss_by_position: Float[Array, " n_losses"]
    prefix: Float[Array, "n_layers n_heads"]
    previous: Float[Array, "n_layers n_heads"]
    chance: Float[Array, ""]

    def _table(self) -> NumberTable | None:
        if np.ndim(self.prefix) != 2 or not known(*self):
            return None
        scores = np.stack([self.prefix, self.previous], axis=-1)
        rows = [(f"head {l}.{h}", scores[l, h]) for l, h in largest(scores.max(axis=-1))]
        loss = float(np.mean(self.loss_by_position))
        title = f"InductionScores: loss {loss:.4g} nats, chance {float(self.chance):.4g}"
        return NumberTable(title, ("prefix", "previous"), rows)


def induction_scores(model: Model, texts: Any) -> InductionScores:
    """Losses, prefix-matching and previous-token scores of one model on repeated texts.

    Args:
        model: One model, not an ensemble; vmap over its members.
        texts: Random texts that repeat themselves, best of distinct symbols, so that only one
            earlier position matches; ``[batch, n_ctx]``, at least one of two tokens.

    Raises:
        ValueError: If the model is an ensemble or does not predict tokens, or ``texts`` is not a
            batch of texts.

    Source: induction-heads paper, evaluators "prefix matching" and "previous token".
    """
    check_one_member(model)
    check_next_tokens(model)
    texts = token_ids(texts, model.d_vocab, batch=True, name="texts")
    if texts.ndim != 2 or texts.shape[1] < 2:
        raise ValueError(
            f"texts has shape {texts.shape}, must be [batch, n_ctx], of two tokens or more each"
        )
    return _scores(model, texts)


@compiled()
def _scores(model: Model, texts: Int[Array, "batch n_ctx"]) -> InductionScores:
    logits, trace = jax.vmap(lambda text: forward(model, text))(texts)
    spec = model.spec
    window = spec.window if spec.local_layers is None else None

    def on(mask: Callable[[Array], Array]) -> Detection:
        def one(A: Array, text: Array) -> Detection:
            return detect(A, mask(text), causal=spec.causal, window=window)

        return jax.vmap(one)(trace.patterns, texts)

    found, before = on(prefix_mask), on(previous_mask).score
    weight = found.n_dest.astype(logits.dtype)
    weight = safe_divide(weight, jnp.broadcast_to(weight.sum(), weight.shape))
    return InductionScores(
        next_token_losses(logits, texts).mean(axis=0),
        jnp.einsum("b,blh->lh", weight, found.score),
        before.mean(axis=0),
        weight @ found.null,
    )


def mlp_streams(run: Run) -> Float[Array, "n_layers n_ctx d_model"]:
    """The stream that each MLP reads, before its norm where it reads through one."""
    # The parallel form reads the layer's input.
    return one_text(run).streams[:-1] if run.model.spec.parallel else one_text(run).mid


def neuron_activations(run: Run) -> Float[Array, "n_layers n_ctx d_mlp"]:
    """Activations of the last hidden layer: the factor of each unit on its row of ``W_out``."""
    return one_text(run).post


class Firing(NamedTuple):
    """Rate at which a unit's values come next: where it fires, and everywhere.

    Attributes:
        fired: Share of next tokens among the unit's values, where it fires.
        everywhere: The same share over all positions.
    """

    fired: Float[Array, "n_layers d_mlp"]
    everywhere: Float[Array, "n_layers d_mlp"]


def values_come_true(
    activations: Float[Array, "n_layers n d_mlp"],
    coming: Int[Array, " n"],
    values: Bool[Array, "n_layers d_mlp d_vocab"],
    n_firing: int,
) -> Firing:
    """Rate at which the next token is one of a unit's values, at the unit's largest activations.

    Source: S2 and Geva et al. (2021): values are distributions over what follows their keys.
    """

    def of_unit(active: Array, raised: Array) -> tuple[Array, Array]:
        hits = raised[coming].astype(active.dtype)
        firing = jax.lax.top_k(active, n_firing)[1]
        return hits[firing].mean(), hits.mean()

    def of_layer(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        active, raised = pair
        return jax.lax.map(lambda unit: of_unit(*unit), (active.T, raised))

    return Firing(*jax.lax.map(of_layer, (activations, values)))


def mean_by_token(
    activations: Float[Array, "n_layers n d_mlp"], present: Int[Array, " n"], d_vocab: int
) -> Float[Array, "n_layers d_mlp d_vocab"]:
    """Mean activation of each unit by the token at the position; 0 for tokens that never occur."""
    counts = jnp.zeros(d_vocab, activations.dtype).at[present].add(1)
    total = jax.vmap(lambda a: jax.ops.segment_sum(a, present, d_vocab))(activations)
    return jnp.matrix_transpose(safe_divide(total, counts[None, :, None]))
