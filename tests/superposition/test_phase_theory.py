"""The phase diagram of four configurations."""

import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.superposition.enumeration import enumerated_loss
from circuitax.superposition.phase_theory import (
    TRIPLE_POINT,
    Configuration,
    best_configuration,
    configuration_losses,
)

GRID = np.geomspace(0.01, 1, 40)


@pytest.mark.parametrize(("r", "p"), [(0.3, 0.2), (1.0, 0.7), (4.0, 1.0)])
def test_T4_losses_are_those_of_the_configurations(x64, r, p):
    losses = {n: configuration_losses(jnp.array(p), jnp.array(r), n) for n in (2, 3)}
    half = p / 2
    models = [
        (2, Configuration.ignore_first, [[0, 1]], [half, 0]),
        (2, Configuration.ignore_last, [[1, 0]], [0, half]),
        (2, Configuration.pair_last, [[1, -1]], [0, 0]),
        (3, Configuration.ignore_last, [[1, 0, 0], [0, 1, 0]], [0, 0, half]),
        (3, Configuration.pair_first, [[1, -1, 0], [0, 0, 1]], [0, 0, 0]),
        (3, Configuration.pair_last, [[1, 0, 0], [0, 1, -1]], [0, 0, 0]),
    ]
    for n, which, W, b in models:
        importance = [*[1.0] * (n - 1), r]
        exact = enumerated_loss(W, b, [p] * n, importance)
        assert float(losses[n][which]) == pytest.approx(exact, rel=1e-13)
    assert losses[2][Configuration.pair_first] == jnp.inf


def test_T4_all_phases_meet_at_the_triple_point(x64):
    r, p = (jnp.array(v) for v in TRIPLE_POINT)
    for n in (2, 3):
        losses = configuration_losses(p, r, n)
        finite = losses[jnp.isfinite(losses)]
        np.testing.assert_allclose(finite, finite[0], rtol=1e-13)
    assert (1, pytest.approx(0.5714, abs=1e-4)) == TRIPLE_POINT


@pytest.mark.parametrize("n", [2, 3])
def test_T4_boundaries_part_the_best_configurations(x64, n):
    p, r = (jnp.asarray(v.ravel()) for v in np.meshgrid(GRID, np.geomspace(0.1, 10, 41)))
    which, loss = best_configuration(p, r, n)
    np.testing.assert_allclose(loss, configuration_losses(p, r, n).min(axis=-1))
    # Algebra on the four losses; above p = 4/7 nothing is shared.
    lower = jnp.where(p < 4 / 7, 2 * p / (4 - 5 * p), 1)
    upper = jnp.where((p < 4 / 7) & (n == 2), (4 - 5 * p) / (2 * p), 1)
    ignored, shared = r < lower, (r > lower) & (r < upper)
    clear = np.abs(np.log(r)) > 1e-9  # on r = 1 configurations tie
    np.testing.assert_array_equal((which == 1)[clear], ignored[clear])
    np.testing.assert_array_equal((which == 3)[clear], shared[clear])
    # The last feature is dedicated: for n = 2 the first is ignored, for n = 3 two ways exist.
    dedicated = {Configuration.ignore_first} | ({Configuration.pair_first} if n == 3 else set())
    kept = np.asarray((r > upper) & clear)
    assert {Configuration(v) for v in np.asarray(which)[kept].tolist()} == dedicated
