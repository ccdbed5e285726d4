"""Measurements of a published model: copying, detectors, composition, named skip-trigrams."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from circuitax.circuits.detectors import detect, induction_scores, prefix_mask
from circuitax.circuits.term_losses import term_losses
from circuitax.circuits.weights.composition import composition
from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.circuits.weights.spectra import composed_keys, copying_score, same_matching
from circuitax.circuits.weights.token_tables import copying_accuracy, top_triples
from circuitax.data.synthetic import sample_repeated
from circuitax.kernel.chain import Chain, chain_of, entries, materialise, rows
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import ablate_heads
from circuitax.kernel.model import Model
from circuitax.kernel.run import run

RANKS = (1, 5)


def repeated_texts(
    key: jax.Array, batch: int, period: int, n_ctx: int, d_vocab: int
) -> Int[Array, "batch length"]:
    """Token 0 as start, then random tokens twice; shorter where the model is small."""
    period = min(period, (n_ctx - 1) // 2, d_vocab - 1)
    twice = sample_repeated(
        key, batch, 2 * period, d_vocab - 1, min_period=period, max_period=period, distinct=True
    )
    return jnp.pad(twice.tokens + 1, ((0, 0), (1, 0)))


def of_two_layers(
    model: Model,
    previous: int,
    inducers: tuple[int, ...],
    texts: Int[Array, "batch length"],
) -> dict[str, np.ndarray]:
    """Scores of a two-layer model, and prefix scores without each head of layer 0."""
    ov = token_ov(model)
    W_E, W_V, W_O, W_U = ov.factors

    def copied(chosen: list[int]) -> list[float]:
        width = jnp.concatenate([W_V[1, head] for head in chosen], axis=-1)
        back = jnp.concatenate([W_O[1, head] for head in chosen], axis=-2)
        chain = chain_of(W_E, width, back, W_U)
        return [float(jax.jit(partial(copying_accuracy, k=k))(chain)) for k in RANKS]

    scores = jax.jit(induction_scores)(model, texts)
    without = jax.jit(_prefix_without)(model, texts, jnp.eye(model.n_heads))
    matching = same_matching(*composed_keys(model, (0, previous), 1))[1]
    found = {
        "copied": np.array([copied([inducers[0]]), copied(list(inducers))]),
        "prefix": scores.prefix,
        "previous": scores.previous,
        "prefix_without": without,
        "composition": composition(model).score[:, 0, :, 1, :],
        "copying": copying_score(ov),
        "matching": matching,
    }
    return {name: np.asarray(value) for name, value in found.items()}


def _prefix_without(model: Model, texts: Array, off: Array) -> Float[Array, "removed head"]:
    """Prefix scores of layer 1 with one head of layer 0 removed at a time."""

    def one(mask: Array) -> Array:
        removed = ablate_heads(jnp.stack([mask, jnp.zeros_like(mask)]))

        def score(text: Array) -> Array:
            pattern = forward(model, text, removed)[1].patterns
            return detect(pattern, prefix_mask(text)).score[1]

        return jax.lax.map(score, texts).mean(axis=0)

    return jax.lax.map(one, off)


def of_text(model: Model, windows: Int[Array, "batch n_ctx"]) -> dict[str, np.ndarray]:
    """Losses by order and by layer, and prefix scores, on real text."""

    def one(text: Array) -> dict[str, Array]:
        seen = run(model, text)
        losses = term_losses(seen)
        return {
            "order_loss": losses.order.mean(axis=1),
            "first_order_loss": losses.first_order.mean(axis=1),
            "text_prefix": detect(seen.trace.patterns, prefix_mask(text)).score,
        }

    found = jax.jit(lambda windows: jax.lax.map(one, windows))(windows)
    return {name: np.asarray(values.mean(axis=0)) for name, values in found.items()}


def of_one_layer(model: Model, k: int = 100) -> dict[str, np.ndarray]:
    """Eigenvalue score of each head, and how many top skip-trigrams of it repeat a token."""
    ov, qk = _first_layer(token_ov(model)), _first_layer(token_qk(model))
    find = jax.jit(partial(top_triples, k=min(k, model.d_vocab)))
    copies = []
    for head in range(model.n_heads):
        one = [Chain(tuple(f[head] if f.ndim == 3 else f for f in c.factors)) for c in (qk, ov)]
        found = find(*one)
        copies.append(float((found.out == found.source).mean()))
    score = np.asarray(copying_score(ov))
    return {"one_layer_copying": score, "one_layer_copies": np.array(copies)}


def of_words(model: Model, triples: Int[Array, "n 3"], k: int = 10) -> Bool[np.ndarray, "n head"]:
    """Mask of layer-0 heads with (source, destination, out): positive score, out in the top k."""
    source, dest, out = triples.T
    qk, ov = (_first_layer(chain) for chain in (token_qk(model), token_ov(model)))
    attended = entries(qk, dest, source) > 0
    raised = materialise(rows(ov, source), max_entries=2**28)
    own = jnp.take_along_axis(raised, out[None, :, None], axis=-1)
    has = attended & ((raised > own).sum(axis=-1) < k) & (own[..., 0] > 0)
    return np.asarray(has).T


def _first_layer(chain: Chain) -> Chain:
    return Chain(tuple(f[0] if f.ndim == 4 else f for f in chain.factors))
