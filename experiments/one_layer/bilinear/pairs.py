"""Pairs of tokens in a bilinear layer: what their products are worth, and what they raise."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer

from circuitax.circuits.neurons import mlp_streams
from circuitax.circuits.weights.heads import token_qk, unembedding
from circuitax.circuits.weights.mlps import (
    bilinear_mlps,
    interaction_eigenvectors,
    interaction_matrices,
    pair_terms,
    token_interactions,
)
from circuitax.kernel.chain import materialise
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.mlp import apply_mlp
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.kernel.weights import MLPWeights
from circuitax.kit.members import member_of


class PartLosses(NamedTuple):
    """A one-layer model without one part of its MLP, and the sum of all pairs.

    Attributes:
        loss: Whole, then without what the token at the position makes alone, without its
            products with what heads wrote, and without what that makes alone; nats a token.
        closing: Largest difference of an MLP's logit and the sum over all pairs of tokens, over
            the largest logit: at the last position of the first window.
    """

    loss: Float[Array, " part"]
    closing: Float[Array, ""]


def part_losses(model: Model, windows: Int[Array, "window n_ctx"]) -> PartLosses:
    """``f(e + h) = f(e) + 2 B(e, h) + f(h)`` of a quadratic f: e the token, h the heads."""
    mlp = _layer(model)

    def of_window(tokens: Array) -> Array:
        seen = run_model(model, tokens, outputs=True)
        token, read = seen.streams[0], mlp_streams(seen)[0]
        own, heads, whole = (_written(mlp, x) for x in (token, read - token, read))
        cross = whole - own - heads
        parts = jnp.stack([jnp.zeros_like(own), own, cross, heads])
        logits = (read[None] + whole[None] - parts) @ model.W_U
        return jax.vmap(lambda one: next_token_losses(one[None], tokens[None]).mean())(logits)

    return PartLosses(jax.lax.map(of_window, windows).mean(axis=0), _closing(model, windows[0]))


def _closing(model: Model, tokens: Int[Array, " n_ctx"]) -> Array:
    """Paths from two tokens to every logit of the last position, against what the MLP wrote."""
    seen, mlp = run_model(model, tokens, outputs=True), _layer(model)
    heads, W_U = member_of(model.blocks.attention, 0), unembedding(model)
    token, whole = seen.streams[0], jnp.asarray(seen.mlp_outputs)[0]
    pattern = seen.trace.patterns[0, :, -1]
    moved = jnp.einsum("hs,sd,hdk,hke->hse", pattern, token, heads.W_V, heads.W_O)
    sources = jnp.concatenate([token[-1:], moved.reshape(-1, token.shape[-1])])
    terms = jax.lax.map(lambda u: pair_terms(mlp, sources, u).sum(), W_U.T)
    want = whole[-1] @ W_U
    return jnp.abs(terms - want).max() / jnp.abs(want).max()


class Pairs(NamedTuple):
    """The strongest pair of tokens of each output direction.

    ``strength = score⁺ · raise⁺``: the centred QK entry of the pair, and ``2 e_t B (e_s W_OV)ᵀ``.

    Attributes:
        head: Head that carries the source.
        destination: Token at the position.
        source: Token before it.
        raised: What the pair adds to the logit where the head attends to the source alone.
    """

    head: Int[Array, " direction"]
    destination: Int[Array, " direction"]
    source: Int[Array, " direction"]
    raised: Float[Array, " direction"]


def strongest_pairs(model: Model, directions: Int[Array, " direction"]) -> Pairs:
    """The pair of largest positive score times positive raise, over all heads and tokens."""
    mlp, heads = _layer(model), member_of(model.blocks.attention, 0)
    scores = materialise(token_qk(model))[0]  # [head, destination, source]
    moved = jnp.einsum("vd,hdk,hke->hve", model.W_E, heads.W_V, heads.W_O)
    outputs = unembedding(model)[:, directions].T

    def of_direction(u: Array) -> Pairs:
        of_heads = jax.vmap(token_interactions, in_axes=(None, None, 0))
        tables = of_heads(interaction_matrices(mlp, u), model.W_E, moved)
        raised = 2 * materialise(tables)
        best = jnp.argmax(jax.nn.relu(scores) * jax.nn.relu(raised))
        head, destination, source = jnp.unravel_index(best, raised.shape)
        return Pairs(head, destination, source, raised[head, destination, source])

    return jax.lax.map(of_direction, outputs)


class Followed(NamedTuple):
    """How often tokens follow a destination with its source before it, and without.

    Attributes:
        times: Occurrences of the destination behind its source.
        rate_with: Share of these that are followed by each direction's token; NaN without any.
        rate_without: The same where the source is not before it.
    """

    times: Int[np.ndarray, " pair"]
    rate_with: Float[np.ndarray, "pair other"]
    rate_without: Float[np.ndarray, "pair other"]


def followed(
    tokens: Integer[np.ndarray, " n_tokens"],
    destinations: Int[np.ndarray, " pair"],
    sources: Int[np.ndarray, " pair"],
    outs: Int[np.ndarray, " other"],
    reach: int,
) -> Followed:
    """Rates of every out token behind every pair, on a text.

    Args:
        tokens: The text.
        destinations: Of each pair.
        sources: Of each pair, 1 to ``reach`` tokens before the destination.
        outs: Tokens that may follow.
        reach: Farthest source, at least 1.
    """
    text = np.asarray(tokens, np.int64)
    times: list[int] = []
    with_it: list[np.ndarray] = []
    without: list[np.ndarray] = []
    for destination, source in zip(destinations, sources, strict=True):
        at = np.flatnonzero(text[:-1] == destination)
        before = np.concatenate([[0], np.cumsum(text == source)])
        behind = before[at] > before[np.maximum(at - reach, 0)]
        for rows, chosen in ((with_it, at[behind]), (without, at[~behind])):
            counts = np.bincount(text[chosen + 1], minlength=text.max() + 1)[outs]
            rows.append(counts / len(chosen) if len(chosen) else np.full(len(outs), np.nan))
        times.append(int(behind.sum()))
    return Followed(np.array(times), np.array(with_it), np.array(without))


def token_profiles(
    model: Model, directions: Int[Array, " direction"]
) -> Float[Array, "direction d_vocab"]:
    """The first eigenvector of each direction by what it reads of each token, centred, length 1."""
    matrices = interaction_matrices(_layer(model), unembedding(model)[:, directions].T)
    first = interaction_eigenvectors(matrices).vectors[..., 0]
    read = first @ (model.W_E - model.W_E.mean(axis=0, keepdims=True)).T
    return read / jnp.linalg.norm(read, axis=-1, keepdims=True)


def couples(
    profiles: Float[np.ndarray, "seed direction d_vocab"], shifts: int
) -> Float[np.ndarray, "couple shift direction"]:
    """Absolute cosines of the profiles of seeds 0 and 1, 2 and 3, ...; no seed is in two couples.

    Args:
        profiles: Of length 1.
        shifts: How many rows beside the first: row i has the second seed's direction i places on.
    """
    even = len(profiles) // 2 * 2
    one, two = profiles[0:even:2], profiles[1:even:2]
    rows = [np.abs((one * np.roll(two, -i, axis=1)).sum(axis=-1)) for i in range(shifts + 1)]
    return np.stack(rows, axis=1)


def _layer(model: Model) -> MLPWeights:
    return member_of(bilinear_mlps(model), 0)


def _written(mlp: MLPWeights, x: Array) -> Array:
    return apply_mlp(mlp, x, "linear")
