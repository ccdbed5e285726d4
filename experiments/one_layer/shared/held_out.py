"""Held-out windows of a text: some for curves, four times as many for final losses."""

import jax.numpy as jnp
from jaxtyping import Array, Int

from circuitax.data.corpus import TextError
from circuitax.data.text import Text, spaced_windows
from circuitax.kernel.forward import behind_start
from circuitax.kernel.spec import TransformerSpec

# Windows of the last losses over those of the curves.
MORE = 4


def held_out_windows(
    text: Text, windows: int, model: TransformerSpec
) -> tuple[Int[Array, "window n_ctx"], Int[Array, "more n_ctx"]]:
    """Windows for curves and windows for last losses, each behind the model's start token.

    Args:
        text: Its held-out part is read.
        windows: How many for the curves, at least 1.
        model: Its context is the length of a window.

    Raises:
        TextError: If the held-out part is too short for the longer of both.
    """
    length, tokens = model.n_ctx or 0, text.tokens.validation
    most = len(tokens) // (MORE * length)
    if windows > most:
        raise TextError(
            f"windows={windows} must be at most {most}: four times as many of {length} tokens "
            f"must fit into the {len(tokens)} held out; give more text or windows={max(most, 1)}"
        )
    few, more = (
        behind_start(jnp.asarray(spaced_windows(tokens, n, length)), model.start_token)
        for n in (windows, MORE * windows)
    )
    return few, more
