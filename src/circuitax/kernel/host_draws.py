"""Draws on the host: a NumPy generator seeded by a random key."""

import jax
import numpy as np
from jaxtyping import Array, Key


def host_generator(key: Key[Array, ""]) -> np.random.Generator:
    """A NumPy generator for draws that suit JAX badly: permutations of files, ragged texts.

    Equal keys give equal draws; those of another key are independent of them.

    Args:
        key: One key, consumed.
    """
    return np.random.default_rng(np.asarray(jax.random.key_data(key), np.uint32))
