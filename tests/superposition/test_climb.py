"""Tegum products of one polytope."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.superposition.climb import TEGUM_FACTORS, tegum_gains, vertices
from circuitax.superposition.polytopes import solution_class

P = np.array([1.0, 0.3, 0.05])


@pytest.fixture(scope="module")
def gains():
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, tegum_gains(jnp.asarray(P)))


@pytest.mark.parametrize("name", TEGUM_FACTORS)
def test_vertices_are_the_named_polytope_and_a_tight_frame(name):
    k, r = TEGUM_FACTORS[name]
    V = vertices(name)
    assert solution_class(V) == name
    np.testing.assert_allclose(V @ V.T, np.diag([k / r] * r + [0.0] * (3 - r)), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(V[:, :k], axis=0), 1, rtol=1e-12)


def test_a_dedicated_dimension_saves_the_whole_variance(gains):
    np.testing.assert_allclose(gains.gain[0], P / 3 - P**2 / 4, rtol=1e-9)
    np.testing.assert_allclose(gains.norm[0], 1, rtol=1e-6)


def test_a_digon_is_at_least_as_good_as_its_closed_form(gains):
    at = list(TEGUM_FACTORS).index("digon")
    closed = 2 * (P / 3 - P**2 / 4) - P**2 / 3  # W = [1, -1], b = 0
    assert (gains.gain[at] >= closed - 1e-12).all()
    assert gains.gain[at, 1] == pytest.approx(2 * (0.1 - 0.0225) - 0.02931, abs=6e-6)  # table of T4


def test_the_pentagon_has_the_norm_bias_and_loss_of_its_free_optimum(gains):
    at = list(TEGUM_FACTORS).index("pentagon")
    assert gains.norm[at, 2] == pytest.approx(1.135, abs=6e-4)
    assert gains.bias[at, 2] == pytest.approx(-0.24633, abs=1e-4)
    variance = 0.05 / 3 - 0.05**2 / 4
    assert gains.gain[at, 2] == pytest.approx((5 * variance - 0.00890) / 2, abs=3e-6)
