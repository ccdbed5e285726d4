"""What heads are by looking and by writing, each score with what it would be by chance."""

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
from circuitax.circuits.expansion import path_term, split_own_position
from circuitax.circuits.frozen import FrozenModel, frozen_model
from circuitax.circuits.heads import token_ov
from circuitax.circuits.roles import copying, memory_management
from circuitax.circuits.subspaces import overlap
from circuitax.kernel import kron
from circuitax.kernel.forward import forward
from circuitax.kernel.gauge import centre_vocabulary
from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.weights import TransformerWeights

TOKEN_MASKS = {"duplicate": duplicate_mask, "prefix": prefix_mask}


def of_weights(weights: TransformerWeights, spec: ForwardSpec) -> dict[str, Array]:
    """Copying over the vocabulary, and overlaps of the first layer's writes with all reads."""
    heads = weights.blocks.attention
    copied = copying(token_ov(weights, spec), jnp.arange(weights.W_E.shape[0]))
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


def of_texts(
    weights: TransformerWeights, texts: Array, key: Key[Array, ""], shuffles: int,
    spec: ForwardSpec,
) -> dict[str, Array]:  # fmt: skip
    """Detector scores with their nulls, memory management, and what is read at home.

    Token masks have the null of shuffled tokens (patterns kept), positions that of even attention.
    """
    ov = token_ov(weights, spec)

    def one(at: tuple[Array, Array]) -> dict[str, Array]:
        text, shuffling = at
        _, trace = forward(weights, text, spec, outputs=True)
        model = centred(frozen_model(weights, text, spec, trace))
        before = detect(trace.patterns, previous_mask(text))
        memory = memory_management(trace, ov, text)
        found = {
            "previous": before.score,
            "previous_null": before.null,
            "alignment": memory.alignment,
            "own_token": memory.own_token,
            "own": own_share(model),
            "own_null": own_share(model._replace(A=_even(model.A))),
        }
        for name, mask_of in TOKEN_MASKS.items():
            seen = detect(trace.patterns, mask_of(text))
            null = shuffled_null(shuffling, trace.patterns, text, mask_of, n_shuffles=shuffles)
            found |= {name: seen.score, f"{name}_null": null.mean, f"{name}_std": null.std}
        return found

    found = jax.lax.map(one, (texts, jax.random.split(key, texts.shape[0])))
    means = {name: x.mean(axis=0) for name, x in found.items()}
    for name in TOKEN_MASKS:
        spread = jnp.sqrt((found[f"{name}_std"] ** 2).mean(axis=0) / texts.shape[0])
        means[f"{name}_std"] = spread
    return means


def own_share(model: FrozenModel) -> Float[Array, "n_layers n_heads"]:
    """How much of what a head adds to the logits, read from the embedding, stands at home.

    ``‖own‖ / (‖own‖ + ‖earlier‖)`` of `split_own_position`: the part of a "skip-trigram" term that
    is a bigram (E24).
    """
    n_layers, n_heads, n_ctx, _ = model.A.shape

    def share(layer: int, head: int) -> Array:
        split = split_own_position(path_term(model, ((layer, head),)), n_ctx)
        own, earlier = (jnp.linalg.norm(kron.act(term, model.embedding)) for term in split)
        return safe_divide(own, own + earlier)

    rows = [[share(layer, head) for head in range(n_heads)] for layer in range(n_layers)]
    return jnp.stack([jnp.stack(row) for row in rows])


def centred(model: FrozenModel) -> FrozenModel:
    """The model with logits over the mean token, which is all that a softmax sees."""
    read_out = model.read_out
    return model._replace(read_out=read_out._replace(W_U=centre_vocabulary(read_out.W_U)))


def _even(patterns: Array) -> Array:
    causal = jnp.tril(jnp.ones(patterns.shape[-2:], patterns.dtype))
    return jnp.broadcast_to(causal / causal.sum(axis=-1, keepdims=True), patterns.shape)
