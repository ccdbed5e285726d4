"""Draws on the host: a NumPy generator seeded by a random key."""

import jax
import numpy as np
from jaxtyping import Array, Key


def host_generator(key: Key[Array, ""]) -> np.random.Generator:
    """A NumPy generator for draws that suit JAX badly: permutations of files, ragged texts."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key), np.uint32))
