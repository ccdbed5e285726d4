"""Texts as token ids: the checked input of a model, and the start token at position 0."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int

from circuitax.kernel.checks import shortened

# What functions of texts accept; `token_ids` says which of these are texts.
Tokens = ArrayLike | Sequence


def token_ids(
    tokens: Tokens, d_vocab: int, *, batch: bool = False, name: str = "tokens"
) -> Int[Array, "*batch n_ctx"]:
    """Token ids as a JAX array, checked."""
    ids = _as_array(tokens, name)
    if ids.ndim != 1 and not (batch and ids.ndim == 2):
        or_batch = " or a batch of them [batch, n_ctx]" if batch else "; vmap over a batch"
        raise ValueError(f"{name} has shape {ids.shape}, must be one text [n_ctx]{or_batch}")
    if not ids.size:
        raise ValueError(f"{name} has shape {ids.shape}, must have at least one token")
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ValueError(f"{name} has type {ids.dtype}, must be integers")
    if not isinstance(ids, jax.core.Tracer):
        values = np.asarray(ids)
        for extreme in (int(values.min()), int(values.max())):
            if not 0 <= extreme < d_vocab:
                raise ValueError(f"{name} has the id {extreme}, must lie in [0, d_vocab={d_vocab})")
    # Texts on disk are often of 16 unsigned bits.
    return ids if jnp.issubdtype(ids.dtype, jnp.signedinteger) else ids.astype(jnp.int32)


def _as_array(tokens: Tokens, name: str) -> Array:
    if any(isinstance(leaf, str) for leaf in jax.tree.leaves(tokens)):
        raise ValueError(
            f"{name}={shortened(tokens)} must be ids: cx.load_tokenizer(source).encode(text).ids"
        )
    try:
        return jnp.asarray(tokens)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} is a {type(tokens).__name__}, must be integers, texts of one length: {error}"
        ) from None


def with_start(
    tokens: Int[Array, "*batch n_ctx"], start_token: int
) -> Int[Array, "*batch n_ctx+1"]:
    """The texts with the start token in front.

    Source: framework paper and induction-heads paper, ``<START>``.
    """
    start = jnp.full((*tokens.shape[:-1], 1), start_token, tokens.dtype)
    return jnp.concatenate([start, tokens], axis=-1)


def behind_start(
    texts: Int[Array, "*batch n_ctx"], start_token: int | None
) -> Int[Array, "*batch n_ctx"]:
    """Texts of the same length with the start token in front; each loses its last token."""
    return texts if start_token is None else with_start(texts[..., :-1], start_token)
