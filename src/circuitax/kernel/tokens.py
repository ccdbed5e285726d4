"""The start token: one reserved id at position 0 of every text."""

import jax.numpy as jnp
from jaxtyping import Array, Int


def with_start(
    tokens: Int[Array, "*batch n_ctx"], start_token: int
) -> Int[Array, "*batch n_ctx+1"]:
    """The texts with the start token in front.

    Heads with nothing to say rest on it; trained without one, scores are known only up to a shift
    for each query. Data adds it, the forward pass does not: a trace then has one row a token.

    Args:
        tokens: Texts of one length.
        start_token: An id that occurs nowhere else.

    Source: framework paper and induction-heads paper, ``<START>``.
    """
    start = jnp.full((*tokens.shape[:-1], 1), start_token, tokens.dtype)
    return jnp.concatenate([start, tokens], axis=-1)


def behind_start(
    texts: Int[Array, "*batch n_ctx"], start_token: int | None
) -> Int[Array, "*batch n_ctx"]:
    """Texts of the same length behind the start token, which takes the place of their last token.

    Args:
        texts: Texts of one length.
        start_token: An id that occurs nowhere else; None leaves the texts as they are.
    """
    return texts if start_token is None else with_start(texts[..., :-1], start_token)
