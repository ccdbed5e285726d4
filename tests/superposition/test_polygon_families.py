"""Families of polygons and their proven minima."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.expected_loss import expected_loss
from circuitax.superposition.intervals import ball, ball_precision
from circuitax.superposition.polygon_families import (
    Moments,
    best_member,
    family_moments,
    polygon_family,
    proven_loss,
    proven_maximum,
)


def cosine(part: int, whole: int) -> float:
    return float(np.cos(2 * np.pi * part / whole))


def engine(k, p, gain, bias):
    """The sum loss of a regular k-gon by the cosine series, which knows nothing of polygons."""
    angle = 2 * np.pi * np.arange(k) / k
    W = np.sqrt(gain) * np.stack([np.cos(angle), np.sin(angle)])
    with jax.enable_x64(True):
        weights = TiedWeights(jnp.asarray(W), jnp.full(k, bias))
        return float(expected_loss(weights, jnp.full(k, p), jnp.ones(k), n_terms=256).value)


def test_the_family_loses_what_the_exact_engine_says() -> None:
    p, beta, gain = 0.4, -0.12, 1.07
    at = family_moments(polygon_family(5, cosine), p, beta)
    loss = 5 * (p / 3 - 2 * gain * at.work + gain**2 * at.energy)
    np.testing.assert_allclose(loss, engine(5, p, gain, gain * beta), rtol=2e-9)


def test_slope_and_reach_are_those_of_the_energy() -> None:
    family, step = polygon_family(5, cosine), 1e-5
    for beta in (-1.2, -0.4, 0.3, 1.4):
        up, at, down = (family_moments(family, 0.3, beta + i * step) for i in (1, 0, -1))
        np.testing.assert_allclose(at.slope, (up.energy - down.energy) / (2 * step), rtol=1e-7)
        assert at.work**2 / at.energy <= at.reach <= 0.3 * (1 + 1e-12)
    # Above its reach every output is on, whatever the input.
    np.testing.assert_allclose(family_moments(family, 0.3, 1.62).reach, 0.3, rtol=1e-10)
    np.testing.assert_allclose(float(family.reach), -2 * np.cos(0.8 * np.pi), rtol=1e-15)


def test_the_proven_pentagon_is_the_known_optimum() -> None:
    """Norm 1.13462, bias -0.24633 and sum loss 0.0089035937 at p = 0.05 (erratum E38)."""
    found = proven_loss(5, 0.05)
    assert 0 < found.upper - found.lower < 1e-10
    np.testing.assert_allclose(found.upper, 0.0089035937, atol=1e-10)
    at = family_moments(polygon_family(5, cosine), 0.05, found.beta)
    gain = at.work / at.energy
    np.testing.assert_allclose([gain**0.5, gain * found.beta], [1.13462, -0.24633], atol=2e-5)


def test_the_proven_digon_is_the_optimum_of_two_features() -> None:
    """0.07628 at p = 0.5 (reference page, T4), to more digits by the general proof's candidates."""
    found = proven_loss(2, 0.5)
    np.testing.assert_allclose([found.lower, found.upper], 0.07628, atol=6e-6)


def test_a_wrong_maximum_is_not_proven() -> None:
    family = polygon_family(2, cosine)
    _, beta = best_member(2, 0.4)

    def moments(at) -> Moments:
        return family_moments(family, ball(0.4), at)

    with ball_precision(100):
        proven_maximum(moments, beta, (-1.0, 1.0), ball, tolerance=1e-9)
        with pytest.raises(ValueError, match=r"max_intervals=300 do not prove .* is beta="):
            proven_maximum(
                moments, beta + 0.05, (-1.0, 1.0), ball, tolerance=1e-9, max_intervals=300
            )
