import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.kgons import (
    kgon_potential,
    kgon_weights,
    one_hot_loss,
    optimal_kgon,
)


@pytest.fixture(scope="module")
def kgons():
    return {k: optimal_kgon(k) for k in (4, 5, 6)}


@pytest.mark.parametrize(
    ("k", "norm", "bias", "h", "loss"),
    [(4, 1, 0, 0, 0), (5, 1.17046, -0.28230, 0.23738, 0.01583),
     (6, 1.32053, -0.61814, 0.86746, 0.04819)],
)  # fmt: skip
def test_T9_table(kgons, k, norm, bias, h, loss):
    found = kgons[k]
    assert found.norm == pytest.approx(norm, abs=1e-5)
    assert found.bias == pytest.approx(bias, abs=1e-5)
    assert found.h == pytest.approx(h, abs=1e-5)
    assert found.loss == pytest.approx(loss, abs=5.1e-6)


@pytest.mark.parametrize(
    ("k", "c", "n_positive", "loss"),
    [(4, 5, 0, 0.06667), (4, 5, 1, 0.05667), (4, 6, 0, 0.11111), (4, 6, 1, 0.10417),
     (5, 6, 0, 0.06874)],
)  # fmt: skip
def test_T9_potentials_with_dead_features(kgons, x64, k, c, n_positive, loss):
    found = kgons[k]
    potential = kgon_potential(found.h, k, c, n_positive=n_positive)
    assert potential == pytest.approx(loss, abs=5.1e-6)
    weights = kgon_weights(k, c, found.norm, found.bias, n_positive=n_positive)
    assert float(one_hot_loss(weights)) == pytest.approx(potential, abs=1e-13)


def test_T9_positive_bias_gains_one_in_144_at_six_features():
    gain = kgon_potential(0.0, 4, 6) - kgon_potential(0.0, 4, 6, n_positive=1)
    assert gain == pytest.approx(1 / 144, rel=1e-14)


def test_T9_k_gons_are_critical_points_of_all_weights(kgons, x64):
    gradient = jax.jit(jax.grad(one_hot_loss))
    for k, found in kgons.items():
        if k == 4:  # its potential is not C^2, but it is critical
            found = found._replace(norm=1.0, bias=0.0)
        slope = gradient(kgon_weights(k, k, found.norm, found.bias))
        assert max(float(jnp.abs(leaf).max()) for leaf in slope) < 1e-7, k


def test_one_hot_loss_is_the_mean_over_one_hot_data(x64, rng):
    W, b = 0.7 * rng.normal(size=(2, 4)), 0.2 * rng.normal(size=4)
    x = (np.arange(4000) + 0.5) / 4000
    total = 0.0
    for j in range(4):
        data = np.zeros((4000, 4))
        data[:, j] = x
        total += ((data - np.maximum(data @ W.T @ W + b, 0)) ** 2).sum(axis=1).mean() / 4
    loss = one_hot_loss(TiedWeights(jnp.asarray(W), jnp.asarray(b)))
    assert float(loss) == pytest.approx(total, abs=1e-6)


def test_counts_are_checked():
    with pytest.raises(ValueError, match="k=6 must be from 1 to n_features=5"):
        kgon_weights(6, 5, 1.0, 0.0)
    with pytest.raises(ValueError, match="n_positive=2 must be from 0 to 1"):
        kgon_potential(0.0, 4, 5, n_positive=2)
    with pytest.raises(ValueError, match="k=2 must be at least 3"):
        optimal_kgon(2)
