"""Bilinear MLPs by their weights: spectra, what few eigenvectors keep, what parts are worth."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from circuitax.circuits.neurons import mlp_streams
from circuitax.circuits.weights.heads import unembedding
from circuitax.circuits.weights.mlps import (
    as_eigenvectors,
    bilinear_mlps,
    interaction_eigenvectors,
    interaction_matrices,
    kept_eigenvectors,
)
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.mlp import apply_mlp
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.kernel.weights import MLPWeights
from circuitax.kit.members import member_of
from circuitax.training.language import text_losses

RANDOM = 4  # eigenvectors of each direction that the random choices keep
NAMED = 2  # eigenvectors whose share of the squared eigenvalues the permuted draws tell


class Readings(NamedTuple):
    """Spectra of interaction matrices, and how few eigenvectors do on text.

    Attributes:
        energy: Squared eigenvalues over their sum, largest first.
        correlation: Over all positions, of ``x B xᵀ`` with its part by the largest eigenvectors.
    """

    energy: Float[Array, "layer direction place"]
    correlation: Float[Array, "layer direction kept"]


def spectral_readings(
    model: Model,
    windows: Int[Array, "window n_ctx"],
    directions: Int[Array, " direction"],
    kept: tuple[int, ...],
) -> Readings:
    """Every MLP of one model: the matrices of some logits, and both forms on its own streams."""
    streams = jax.lax.map(lambda one: mlp_streams(run_model(model, one, outputs=True)), windows)
    rows = jnp.moveaxis(streams, 1, 0).reshape(streams.shape[1], -1, streams.shape[-1])
    outputs = unembedding(model)[:, directions].T

    def of_layer(given: tuple[MLPWeights, Array]) -> Readings:
        mlp, x = given
        found = interaction_eigenvectors(interaction_matrices(mlp, outputs))

        def of_direction(one: tuple[Array, Array]) -> Array:
            values, vectors = one
            parts = jnp.cumsum((x @ vectors) ** 2 * values[None], axis=1)  # [row, kept from 1]
            return correlations(parts[:, jnp.asarray(kept) - 1], parts[:, -1])

        energy = found.values**2 / (found.values**2).sum(axis=-1, keepdims=True)
        return Readings(energy, jax.lax.map(of_direction, tuple(found)))

    return jax.lax.map(of_layer, (bilinear_mlps(model), rows))


def correlations(
    parts: Float[Array, "row kept"], whole: Float[Array, " row"]
) -> Float[Array, " kept"]:
    """Pearson's correlation of each column with the whole; 0 where either does not vary."""
    parts, whole = parts - parts.mean(axis=0, keepdims=True), whole - whole.mean()
    sizes = jnp.linalg.norm(parts, axis=0) * jnp.linalg.norm(whole)
    return safe_divide(whole @ parts, sizes)


def permuted_energies(
    model: Model, directions: Int[Array, " direction"], keys: Key[Array, " draw"]
) -> Float[np.ndarray, " draw"]:
    """Mean share of the two largest once hidden units of layer 0 have each other's gates."""
    outputs = unembedding(model)[:, directions].T
    mlp, shares = member_of(bilinear_mlps(model), 0), []
    for key in keys:
        order = jax.random.permutation(key, mlp.W_in.shape[1])
        matrices = _matrices(mlp._replace(W_gate=mlp.W_gate[:, order]), outputs)
        energy = np.sort(np.linalg.eigvalsh(np.asarray(matrices)) ** 2, axis=1)
        shares.append((energy[:, -NAMED:].sum(axis=1) / energy.sum(axis=1)).mean())
    return np.array(shares)


_matrices = jax.jit(interaction_matrices)


class KeptLosses(NamedTuple):
    """Held-out losses with all, none and some eigenvectors of every MLP, nats a token."""

    whole: Float[Array, ""]
    removed: Float[Array, ""]
    kept: Float[Array, " kept"]
    random: Float[Array, " draw"]


def kept_losses(
    model: Model,
    windows: Int[Array, "window n_ctx"],
    keys: Key[Array, " draw"],
    kept: tuple[int, ...],
) -> KeptLosses:
    """Losses where each output direction of each MLP has its largest eigenvectors alone.

    The random choices keep `RANDOM` of each direction, whatever their eigenvalues.
    """
    mlp = bilinear_mlps(model)
    whole, d = jax.lax.map(as_eigenvectors, mlp), model.d_model

    def loss(mlp: MLPWeights) -> Array:
        other = model.replace(blocks=model.blocks._replace(mlp=mlp))
        return text_losses(other, windows).mean()

    def of_places(places: Int[Array, "layer direction chosen"]) -> Array:
        return loss(jax.vmap(kept_eigenvectors)(whole, places))

    def first(rank: int) -> Array:
        return of_places(jnp.broadcast_to(jnp.arange(rank), (len(mlp.W_out), d, rank)))

    def drawn(key: Array) -> Array:
        order = jnp.argsort(jax.random.uniform(key, (len(mlp.W_out), d, d)), axis=-1)
        return of_places(order[..., :RANDOM])

    removed = loss(mlp._replace(W_out=jnp.zeros_like(mlp.W_out)))
    ranks = jnp.stack([first(rank) for rank in kept])
    return KeptLosses(loss(mlp), removed, ranks, jax.lax.map(drawn, keys))


def part_losses(model: Model, windows: Int[Array, "window n_ctx"]) -> Float[Array, " part"]:
    """Losses of a one-layer model, whole and without each of three parts of its MLP, nats a token.

    ``f(e + h) = f(e) + 2 B(e, h) + f(h)`` of a quadratic f: e the token, h the heads. The parts are
    what the token makes alone, its products with what heads wrote, and what that makes alone.
    """
    mlp = member_of(bilinear_mlps(model), 0)

    def of_window(tokens: Array) -> Array:
        seen = run_model(model, tokens, outputs=True)
        token, read = seen.streams[0], mlp_streams(seen)[0]
        own, heads, whole = (apply_mlp(mlp, x, "linear") for x in (token, read - token, read))
        cross = whole - own - heads
        parts = jnp.stack([jnp.zeros_like(own), own, cross, heads])
        logits = (read[None] + whole[None] - parts) @ model.W_U
        return jax.vmap(lambda one: next_token_losses(one[None], tokens[None]).mean())(logits)

    return jax.lax.map(of_window, windows).mean(axis=0)
