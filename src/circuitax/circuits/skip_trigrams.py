"""Skip-trigrams: heads without a softmax, the gain of a softmax beyond them, and forced triples.

One head raises triples by ``f(source, destination) · g(source, out)``: it cannot make
``keep … in → mind`` and ``keep … at → bay`` likely without also raising ``keep … in → bay``. Such a
forced triple is a bug. Its price is how much the loss falls when each (source, destination) pair
gets a free vector of logits.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from circuitax.kernel.attention import attention_scores, causal_mask, per_head, project, softmax
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.linalg import at_least_single
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions


class AdditiveHeads(NamedTuple):
    """``A_ij = exp(s_ij + dest[x_i] + place[i, j])`` instead of ``exp(s_ij) / Σ_j' exp(s_ij')``."""

    model: Model
    dest: Float[Array, "n_heads d_vocab"]
    place: Float[Array, "n_heads n_ctx n_ctx"]


def counted(model: Model) -> AdditiveHeads:
    """The same weights, with the number of sources where the softmax has its denominator.

    ``dest = 0`` and ``place[i, j] = -log(i + 1)``, one more than ``i`` being the sources that
    position i sees. Equal to the model where all scores are 0, and near it at an initialisation,
    where they are small.
    """
    if model.spec.n_ctx is None:
        raise ValueError("spec.n_ctx=None must be set: each pair of positions has a factor")
    _check_sum(model)
    n_ctx, n_heads = model.spec.n_ctx, model.spec.n_heads
    seen = _allowed(model, n_ctx).sum(axis=-1, keepdims=True)
    place = jnp.broadcast_to(-jnp.log(seen), (n_heads, n_ctx, n_ctx)).astype(model.W_E.dtype)
    return AdditiveHeads(model, jnp.zeros((n_heads, model.W_E.shape[0]), place.dtype), place)


def additive_heads_logits(
    heads: AdditiveHeads, tokens: Int[Array, " n_ctx"]
) -> Float[Array, "n_ctx d_vocab"]:
    """Logits of one text: the forward pass, with gates in place of the patterns."""
    gates = jnp.exp(at_least_single(_log_gates(heads, tokens))).astype(heads.place.dtype)
    return forward(heads.model, tokens, Interventions(all_patterns=gates[None]))[0]


def normalised_heads_logits(
    heads: AdditiveHeads, tokens: Int[Array, " n_ctx"]
) -> Float[Array, "n_ctx d_vocab"]:
    """The same heads with their denominators: ``A_ij = softmax_j(s_ij + place[i, j])``."""
    patterns = softmax(_log_gates(heads, tokens))
    return forward(heads.model, tokens, Interventions(all_patterns=patterns[None]))[0]


def _log_gates(
    heads: AdditiveHeads, tokens: Int[Array, " n_ctx"]
) -> Float[Array, "n_heads n_ctx n_ctx"]:
    n_ctx = tokens.shape[0]
    logs = heads.dest[:, tokens][:, :, None] + heads.place[:, :n_ctx, :n_ctx]
    # Behind the mask before the exponential, which may overflow there: inf * 0 is nan.
    return jnp.where(
        _allowed(heads.model, n_ctx), pair_scores(heads.model, tokens) + logs, -jnp.inf
    )


def pair_scores(model: Model, tokens: Int[Array, " n_ctx"]) -> Float[Array, "n_heads n_ctx n_ctx"]:
    """Scores of the only layer, before the mask; each depends on two tokens and two positions."""
    _check_sum(model)
    x = jnp.asarray(model.W_E)[tokens]
    if model.spec.positions == Positions.shortformer and model.W_pos is not None:
        x = x + model.W_pos[: tokens.shape[0]]
    return _scores(model, x)


def _check_sum(model: Model) -> None:
    spec = model.spec
    if spec.n_layers != 1 or model.blocks.mlp is not None or spec.norm != Norm.none:
        raise ValueError("model must have one layer, no MLP and no norm to be a sum over sources")
    if spec.qk_norm or spec.score_cap is not None or spec.window is not None:
        raise ValueError("spec must have no qk_norm, score_cap or window: scores would be no sum")
    if spec.positions not in (Positions.none, Positions.shortformer):
        raise ValueError(f"spec.positions={spec.positions.value} must be none or shortformer")


def _scores(model: Model, x: Float[Array, "n d_model"]) -> Float[Array, "n_heads n n"]:
    """Scores of the only layer for given rows of queries and keys."""
    heads = per_head(model)
    return attention_scores(
        project(x, heads.W_Q[0], None if heads.b_Q is None else heads.b_Q[0]),
        project(x, heads.W_K[0], None if heads.b_K is None else heads.b_K[0]),
        model.spec.scale,
    )


def _allowed(model: Model, n_ctx: int) -> Bool[Array, "1 n_ctx n_ctx"]:
    index = jnp.arange(n_ctx)
    return causal_mask(index, index, model.spec.causal)[None]


EVERY = slice(None)


class FullTable(NamedTuple):
    """``bigram[x_i] + Σ_{j<i} table[x_i, x_j]``: every additive model is one; its fit is convex."""

    bigram: Float[Array, "d_vocab d_vocab"]
    table: Float[Array, "d_vocab d_vocab d_vocab"]


def init_full(d_vocab: int) -> FullTable:
    """Zero tables."""
    return FullTable(jnp.zeros((d_vocab, d_vocab)), jnp.zeros((d_vocab, d_vocab, d_vocab)))


def additive_logits(
    model: FullTable, tokens: Int[Array, " n_ctx"], at: slice = EVERY
) -> Float[Array, "n_at d_vocab"]:
    """Logits of one text from strictly earlier sources; an own-position term is a bigram (E24)."""
    n_ctx, d_vocab = tokens.shape[0], model.bigram.shape[0]
    earlier = jnp.tril(jnp.ones((n_ctx, n_ctx), model.bigram.dtype), k=-1)[at]
    dest = tokens[at]
    # The sum depends on earlier tokens only through how often each occurred.
    counts = earlier @ jax.nn.one_hot(tokens, d_vocab, dtype=earlier.dtype)
    return model.bigram[dest] + jnp.einsum("iv,ivo->io", counts, model.table[dest])


def additive_loss(
    model: FullTable, texts: Int[Array, "batch n_ctx"], at: slice = EVERY
) -> Float[Array, ""]:
    """Mean next-token loss in nats over some predictions of all texts."""

    chosen = range(texts.shape[1] - 1)[at]
    here = slice(chosen.start, chosen.stop, chosen.step)
    logits = jax.vmap(lambda text: additive_logits(model, text, here))(texts)
    log_p = jax.nn.log_softmax(at_least_single(logits), axis=-1)
    return -jnp.mean(jnp.take_along_axis(log_p, texts[:, 1:][:, here, None], axis=-1))


class Fit(NamedTuple):
    """A fitted model, and the gradient norm that says whether the fit has converged."""

    model: FullTable
    loss: Float[Array, ""]
    gradient_norm: Float[Array, ""]


def fit(
    start: FullTable,
    texts: Int[Array, "batch n_ctx"],
    at: slice = EVERY,
    *,
    n_steps: int = 200,
    decay: float = 1e-6,
) -> Fit:
    """Minimise the mean loss plus ``decay/2 ‖θ‖²`` by full-batch L-BFGS."""

    def objective(model: FullTable) -> Array:
        return additive_loss(model, texts, at) + decay / 2 * optax.tree.norm(model, squared=True)

    model, gradient_norm = minimise(objective, start, n_steps)
    return Fit(model, additive_loss(model, texts, at), gradient_norm)


def minimise(
    objective: Callable[[optax.Params], Array], start: optax.Params, n_steps: int
) -> tuple[optax.Params, Float[Array, ""]]:
    """L-BFGS with line search: the last parameters and the norm of their gradient."""
    solver = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(objective)

    def step(carry: tuple, _: None) -> tuple[tuple, None]:
        params, state = carry
        value, slope = value_and_grad(params, state=state)
        updates, state = solver.update(
            slope, state, params, value=value, grad=slope, value_fn=objective
        )
        return (optax.apply_updates(params, updates), state), None

    (params, _), _ = jax.lax.scan(step, (start, solver.init(start)), length=n_steps)
    return params, optax.tree.norm(jax.grad(objective)(params))


class Bugs(NamedTuple):
    """Triples (source, destination, out) that the head raises and the data lacks.

    Attributes:
        strength: Positive score times positive raise of the triple; 0 where there is no further
            bug.
    """

    source: Int[Array, " k"]
    destination: Int[Array, " k"]
    out: Int[Array, " k"]
    strength: Float[Array, " k"]


def find_bugs(
    scores: Float[Array, "n_sources n_dest"],
    raises: Float[Array, "n_sources n_outs"],
    counts: Float[Array, "n_sources n_dest n_outs"],
    k: int,
) -> Bugs:
    """The strongest triples that never occur although both their halves do.

    Source: framework paper, "skip-trigram bugs"; S4 ("keep… in bay").
    """
    strength = jax.nn.relu(scores)[:, :, None] * jax.nn.relu(raises)[:, None, :]
    pair_occurs = counts.sum(axis=2, keepdims=True) > 0
    out_occurs = counts.sum(axis=1, keepdims=True) > 0
    forced = pair_occurs & out_occurs & (counts == 0)
    values, flat = jax.lax.top_k(jnp.where(forced, strength, 0).ravel(), k)
    source, destination, out = jnp.unravel_index(flat, counts.shape)
    return Bugs(source, destination, out, values)


class Price(NamedTuple):
    """Held-out nats per token that one free vector of logits for each pair would save.

    Attributes:
        saved: Mean over held-out events of the loss before minus after; negative if the refit
            overfits.
        saved_by_pair: Mean over the held-out events of each pair; 0 where there are none.
    """

    saved: Float[Array, ""]
    saved_by_pair: Float[Array, " n_pairs"]


def price_bugs(
    logits: Float[Array, "event d_vocab"],
    targets: Int[Array, " event"],
    pair: Int[Array, " event"],
    held_out: Float[Array, " event"],
    n_pairs: int,
    *,
    precision: float = 1.0,
    n_steps: int = 100,
) -> Price:
    """The price of bilinearity: refit ``logits + θ[pair]`` on one part, measure on the other.

    Source: ours; the price is the divergence that one free vector for each pair removes.
    """
    if not isinstance(held_out, jax.core.Tracer):
        n_held, n = int((held_out > 0).sum()), held_out.shape[0]
        if n_held in (0, n):
            raise ValueError(
                f"held_out holds out {n_held} of {n} events, must leave some on each side"
            )
    seen = 1 - held_out

    def losses(theta: Array) -> Array:
        log_p = jax.nn.log_softmax(at_least_single(logits + theta[pair]), axis=-1)
        return -jnp.take_along_axis(log_p, targets[:, None], axis=-1)[:, 0]

    def objective(theta: Array) -> Array:
        return (losses(theta) @ seen + precision / 2 * jnp.sum(theta**2)) / seen.sum()

    nothing = jnp.zeros((n_pairs, logits.shape[1]), logits.dtype)
    theta, _ = minimise(objective, nothing, n_steps)
    saved = (losses(nothing) - losses(theta)) * held_out
    by_pair = jax.ops.segment_sum(saved, pair, n_pairs)
    events = jax.ops.segment_sum(held_out, pair, n_pairs)
    return Price(saved.sum() / held_out.sum(), by_pair / jnp.maximum(events, 1))
