"""Scores of heads by attention and by writing, each with its chance level."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from circuitax.circuits.detectors import (
    detect,
    duplicate_mask,
    prefix_mask,
    previous_mask,
    shuffled_null,
)
from circuitax.circuits.paths.expansion import path_term, split_own_position
from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.circuits.weights.heads import token_ov
from circuitax.circuits.weights.spectra import copying, memory_management, overlap
from circuitax.kernel import kron
from circuitax.kernel.gauge import centre_vocabulary
from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.model import Model
from circuitax.kernel.run import run

TOKEN_MASKS = {"duplicate": duplicate_mask, "prefix": prefix_mask}


def of_weights(model: Model) -> dict[str, Array]:
    """Copying over the vocabulary, and overlaps of the first layer's writes with all reads."""
    heads = model.blocks.attention
    copied = copying(token_ov(model), jnp.arange(model.d_vocab))
    writes = jnp.matrix_transpose(heads.W_O[0])
    reads = jnp.stack([heads.W_Q[1], heads.W_K[1], heads.W_V[1]])
    over_readers = jax.vmap(overlap, (None, 0))
    found = jax.vmap(jax.vmap(over_readers, (None, 0)), (0, None))(writes, reads)
    # [writer, kind, reader]; a head as wide as the stream overlaps with all of it, by no choice
    z = safe_divide(found.value - found.null, jnp.asarray(found.std))
    return {
        "copying": copied.score,
        "copying_null": jnp.asarray(copied.null),
        "overlap": found.value,
        "overlap_z": z,
    }


def of_texts(model: Model, texts: Array, key: Key[Array, ""], shuffles: int) -> dict[str, Array]:
    """Detector scores with their nulls, memory management, and shares of the own position.

    Token masks have the null of shuffled tokens (patterns kept), positions that of even attention.
    """
    ov = token_ov(model)

    def one(at: tuple[Array, Array]) -> dict[str, Array]:
        text, shuffling = at
        seen = run(model, text, outputs=True)
        patterns, frozen = seen.trace.patterns, centred(frozen_model(seen))
        before = detect(patterns, previous_mask(text))
        memory = memory_management(seen, ov)
        found = {
            "previous": before.score,
            "previous_null": before.null,
            "alignment": memory.alignment,
            "own_token": memory.own_token,
            "own": own_share(frozen),
            "own_null": own_share(frozen._replace(A=_even(frozen.A))),
        }
        for name, mask_of in TOKEN_MASKS.items():
            looked = detect(patterns, mask_of(text))
            null = shuffled_null(shuffling, patterns, text, mask_of, n_shuffles=shuffles)
            found |= {name: looked.score, f"{name}_null": null.mean, f"{name}_std": null.std}
        return found

    found = jax.lax.map(one, (texts, jax.random.split(key, texts.shape[0])))
    means = {name: x.mean(axis=0) for name, x in found.items()}
    for name in TOKEN_MASKS:
        spread = jnp.sqrt((found[f"{name}_std"] ** 2).mean(axis=0) / texts.shape[0])
        means[f"{name}_std"] = spread
    return means


def own_share(frozen: FrozenModel) -> Float[Array, "n_layers n_heads"]:
    """Share of a head's output to the logits that it reads at its own position.

    ``‖own‖ / (‖own‖ + ‖earlier‖)`` of `split_own_position`: the part of a "skip-trigram" term that
    is a bigram (E24 of docs/errata.md).
    """
    n_layers, n_heads, n_ctx, _ = frozen.A.shape

    def share(layer: int, head: int) -> Array:
        split = split_own_position(path_term(frozen, ((layer, head),)), n_ctx)
        own, earlier = (jnp.linalg.norm(kron.act(term, frozen.embedding)) for term in split)
        return safe_divide(own, own + earlier)

    rows = [[share(layer, head) for head in range(n_heads)] for layer in range(n_layers)]
    return jnp.stack([jnp.stack(row) for row in rows])


def centred(frozen: FrozenModel) -> FrozenModel:
    """The linear model with logits over the mean token, which is all that a softmax sees."""
    read_out = frozen.read_out
    return frozen._replace(read_out=read_out._replace(W_U=centre_vocabulary(read_out.W_U)))


def _even(patterns: Array) -> Array:
    causal = jnp.tril(jnp.ones(patterns.shape[-2:], patterns.dtype))
    return jnp.broadcast_to(causal / causal.sum(axis=-1, keepdims=True), patterns.shape)
