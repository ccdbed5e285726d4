"""The additivity gap: the gain of a softmax over sources beyond any sum of skip-trigrams.

A one-layer model is exactly a sum over sources only for frozen patterns; the pattern itself couples
the sources. The gap is the held-out loss of the best *additive* model minus the transformer's.

E24 is an erratum of the sources (docs/errata.md).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

FULL_TABLE_LIMIT = 32
EVERY = slice(None)


class Additive(NamedTuple):
    """``bigram[x_i] + Σ_{j<i} Σ_h gate_h[x_i, x_j] raises_h[x_j]``: no softmax."""

    bigram: Float[Array, "d_vocab d_vocab"]
    gate: Float[Array, "n_heads d_vocab d_vocab"]
    raises: Float[Array, "n_heads d_vocab d_vocab"]


class FullTable(NamedTuple):
    """``bigram[x_i] + Σ_{j<i} table[x_i, x_j]``: every additive model is one; its fit is convex."""

    bigram: Float[Array, "d_vocab d_vocab"]
    table: Float[Array, "d_vocab d_vocab d_vocab"]


def init_additive(key: Key[Array, ""], d_vocab: int, n_heads: int) -> Additive:
    """Small random gates and raises; zero would be a saddle point of their product."""
    gate, raises = 0.1 * jax.random.normal(key, (2, n_heads, d_vocab, d_vocab))
    return Additive(jnp.zeros((d_vocab, d_vocab)), gate, raises)


def init_full(d_vocab: int) -> FullTable:
    """Zero tables."""
    if d_vocab > FULL_TABLE_LIMIT:
        raise ValueError(f"d_vocab={d_vocab} must be at most {FULL_TABLE_LIMIT} for a full table")
    return FullTable(jnp.zeros((d_vocab, d_vocab)), jnp.zeros((d_vocab, d_vocab, d_vocab)))


def additive_logits(
    model: Additive | FullTable, tokens: Int[Array, " n_ctx"], at: slice = EVERY
) -> Float[Array, "n_at d_vocab"]:
    """Logits of one text from strictly earlier sources; an own-position term is a bigram (E24)."""
    n_ctx, d_vocab = tokens.shape[0], model.bigram.shape[0]
    earlier = jnp.tril(jnp.ones((n_ctx, n_ctx), model.bigram.dtype), k=-1)[at]
    dest = tokens[at]
    if isinstance(model, FullTable):
        # The sum depends on earlier tokens only through how often each occurred.
        counts = earlier @ jax.nn.one_hot(tokens, d_vocab, dtype=earlier.dtype)
        added = jnp.einsum("iv,ivo->io", counts, model.table[dest])
    else:
        gates = model.gate[:, dest[:, None], tokens[None, :]] * earlier[None]
        added = jnp.einsum("hij,hjo->io", gates, model.raises[:, tokens])
    return model.bigram[dest] + added


def additive_loss(
    model: Additive | FullTable, texts: Int[Array, "batch n_ctx"], at: slice = EVERY
) -> Float[Array, ""]:
    """Mean next-token loss in nats over some predictions of all texts."""

    chosen = range(texts.shape[1] - 1)[at]
    here = slice(chosen.start, chosen.stop, chosen.step)
    logits = jax.vmap(lambda text: additive_logits(model, text, here))(texts)
    log_p = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.mean(jnp.take_along_axis(log_p, texts[:, 1:][:, here, None], axis=-1))


class Fit(NamedTuple):
    """A fitted model, and the gradient norm that says whether the fit has converged."""

    model: Additive | FullTable
    loss: Float[Array, ""]
    gradient_norm: Float[Array, ""]


def fit(
    start: Additive | FullTable,
    texts: Int[Array, "batch n_ctx"],
    at: slice = EVERY,
    *,
    n_steps: int = 200,
    decay: float = 1e-6,
) -> Fit:
    """Minimise the mean loss plus ``decay/2 ‖θ‖²`` by full-batch L-BFGS; works under jit and vmap."""

    def objective(model: Additive | FullTable) -> Array:
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
