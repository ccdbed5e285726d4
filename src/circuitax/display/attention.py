"""Attention of every head of one text, as facts of a viewer."""

import numpy as np
from numpy.typing import ArrayLike

from circuitax.display.viewers import Viewer

MOST = 500_000  # weights in one viewer, about a megabyte
HOW = "Choose a head, and a token to see where the head looks from there."


def attention_viewer(title: str, tokens: list[str], patterns: ArrayLike) -> Viewer | None:
    """The viewer of attention over a text; None where it would take megabytes."""
    A = np.asarray(patterns, float)
    n_layers, n_heads, n_ctx, _ = A.shape
    if not n_layers * n_heads or A.size > MOST or not np.isfinite(A).all():
        return None
    percents = np.rint(100 * A).astype(int)
    causal = not np.triu(percents, 1).any()
    rows = [
        [[int(x) for x in row[: i + 1 if causal else n_ctx]] for i, row in enumerate(head)]
        for head in percents.reshape(-1, n_ctx, n_ctx)
    ]
    heads = [f"{layer}.{head}" for layer in range(n_layers) for head in range(n_heads)]
    return Viewer("attention", title, HOW, {"tokens": tokens, "heads": heads, "patterns": rows})
