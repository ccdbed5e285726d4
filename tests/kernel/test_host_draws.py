"""Draws on the host follow from the key, and from nothing else."""

import jax
import numpy as np

from circuitax.kernel.keys import derive, host_generator


def test_equal_keys_draw_alike_and_other_keys_do_not() -> None:
    key = jax.random.key(3)
    drawn = [host_generator(k).integers(0, 1000, 50) for k in (key, key, derive(key, "other"))]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).mean() > 0.9


def test_the_generator_is_seeded_with_both_words_of_the_key() -> None:
    # The default implementation keeps the seed in the second of two words.
    wanted = np.random.default_rng(np.array([0, 5], np.uint32)).normal(size=4)
    np.testing.assert_array_equal(host_generator(jax.random.key(5)).normal(size=4), wanted)
