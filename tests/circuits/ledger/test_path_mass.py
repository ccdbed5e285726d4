"""Random walks over paths against exact sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.ledger.dressed_moments import dressed_bounds
from circuitax.circuits.ledger.path_mass import path_mass
from tests.circuits.ledger import test_dressed_ledger
from tests.circuits.ledger.test_dressed_ledger import POSITION, every_path, frozen_of, ordinary


def exact(parts, parallel, share=0.5):
    sizes = np.array([abs(float(v)) for v in every_path(parts, parallel).values()])
    mass = np.cumsum(np.sort(sizes)[::-1])
    return mass[-1], int(np.searchsorted(mass, share * mass[-1])) + 1


@pytest.mark.parametrize("parallel", [False, True], ids=["sequential", "parallel"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_many_walks_find_sum_and_number(parallel, share, rng, x64, monkeypatch):
    """In three layers a walk takes two steps."""
    monkeypatch.setattr(test_dressed_ledger, "L", 3)
    parts = ordinary(rng)
    want, number = exact(parts, parallel, share)
    found = path_mass(
        frozen_of(parts, parallel),
        -1,
        jnp.asarray(parts["w"]),
        jax.random.key(3),
        n_walks=20_000,
        share=share,
    )
    low, high = found.absolute_interval
    assert (high - low) < 0.03 * want and low < found.absolute < high
    np.testing.assert_allclose(found.absolute, want, atol=(high - low))
    np.testing.assert_allclose(found.half, number, atol=0.6 + 0.05 * number)
    assert found.n_evaluated <= len(every_path(parts, parallel))


def test_intervals_of_few_walks_cover_and_scale_with_the_direction(rng, x64):
    covered, n = np.zeros(2), 20
    parts = ordinary(rng)
    linear, w = frozen_of(parts, False), jnp.asarray(parts["w"])
    want, bounds = np.array(exact(parts, False)), dressed_bounds(linear, POSITION)
    for seed in range(n):
        key = jax.random.key(seed)
        found = path_mass(linear, POSITION, w, key, n_walks=60, bounds=bounds)
        (a, b), (c, d) = found.absolute_interval, found.half_interval
        assert b - a < want[0] and found.n_walks == 60
        covered += [a <= want[0] <= b, c - 0.5 <= want[1] <= d + 0.5]
    assert covered.min() >= 15  # of 20; nominally 19
    double = path_mass(linear, POSITION, -(2.0**200) * w, key, n_walks=60, bounds=bounds)
    assert double.absolute == 2.0**200 * found.absolute and double.half == found.half
