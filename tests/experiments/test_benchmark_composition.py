"""The benchmark of composition scores: what it counts, and that unequal scores are refused."""

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.benchmarks import composition


def test_operations_are_half_of_every_gram_and_of_products_with_later_readers() -> None:
    size = composition.Size(3, 2, 10, 4)
    gram = 2 * 10 * 10 * 4 / 2
    product = 2 * 10 * 10 / 2
    later = sum(a < b for a in range(3) for b in range(3)) * 2 * 2
    assert size.flops == 4 * 6 * gram + 3 * later * product
    assert size.weights_mb == 4 * 6 * 10 * 4 * 4 / 2**20


def test_scores_of_the_benchmark_are_those_of_its_weights_and_unequal_ones_are_refused() -> None:
    size = composition.Size(2, 2, 6, 3)
    ours = np.asarray(composition.our_scores(size)())
    heads = composition.random_model(size).blocks.attention
    OV = np.asarray(heads.W_V[0, 1] @ heads.W_O[0, 1])
    QK = np.asarray(heads.W_Q[1, 0] @ heads.W_K[1, 0].T)
    expected = np.linalg.norm(OV @ QK) / (np.linalg.norm(OV) * np.linalg.norm(QK))
    np.testing.assert_allclose(ours[0, 0, 1, 1, 0], expected, rtol=1e-5)
    zeros_for_nan = np.asarray(jnp.nan_to_num(ours))
    composition.require_equal(ours, zeros_for_nan)
    with pytest.raises(RuntimeError, match=r"scores differ by 0\.001, more than"):
        composition.require_equal(ours, zeros_for_nan + 1e-3)
