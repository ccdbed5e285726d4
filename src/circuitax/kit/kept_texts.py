"""Saved held-out windows of an experiment on text, for experiments that read its models."""

import jax.numpy as jnp
from jaxtyping import Array, Int

from circuitax.data.corpus import TextError
from circuitax.lab.lab import Lab

HELD_OUT, WINDOWS = "held-out", "windows"


def kept_windows(lab: Lab, source: str, n_windows: int) -> Int[Array, "window n_ctx"]:
    """The first held-out windows saved by an upstream experiment."""
    windows = lab.load_arrays(HELD_OUT, source=source)[WINDOWS]
    if n_windows > len(windows):
        raise TextError(
            f"windows={n_windows} must be at most {len(windows)}: {source} kept no more held-out "
            "windows"
        )
    return jnp.asarray(windows[:n_windows])
