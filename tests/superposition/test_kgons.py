"""Regular k-gons on one-hot data, and as memories of samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.features import dimensionality
from circuitax.superposition.kgons import (
    critical_point,
    kgon_potential,
    kgon_weights,
    one_hot_loss,
    optimal_kgon,
    reconstruction_loss,
    tgon_norm,
    tgon_weights,
)

KS = (3, 4, 5, 6, 7, 8, 11, 12, 13, 16, 24)


@pytest.fixture(scope="module")
def kgons():
    return {k: optimal_kgon(k) for k in KS}


def numpy_loss(k, gain, bias):
    """The one-hot loss of a regular k-gon in plain NumPy: antiderivatives at the kinks."""
    gain, bias = np.broadcast_arrays(gain, bias)
    slope = gain[..., None] * np.cos(2 * np.pi * np.arange(1, k) / k)
    start = bias[..., None]
    flat = np.abs(slope) < 1e-12
    cubes = np.maximum(start + slope, 0) ** 3 - np.maximum(start, 0) ** 3
    off = np.where(flat, np.maximum(start, 0) ** 2, cubes / (3 * np.where(flat, 1, slope)))
    opens = np.clip(-bias / gain, 0, 1)

    def live(x):
        return (1 - gain) ** 2 * x**3 / 3 - (1 - gain) * bias * x**2 + bias**2 * x

    return off.sum(axis=-1) + opens**3 / 3 + live(1.0) - live(opens)


@pytest.mark.parametrize("k", KS)
def test_no_point_of_a_dense_grid_is_below_the_optimum(kgons, k):
    found = kgons[k]
    assert numpy_loss(k, found.norm**2, found.bias) == pytest.approx(found.loss, abs=1e-12)
    gain = np.geomspace(0.02, 0.2 * k**2 + 6, 400)[:, None]
    wide = numpy_loss(k, gain, gain * np.linspace(-1.3, 0.7, 401)[None, :]).min()
    assert found.loss - 1e-12 <= wide < found.loss + 2e-3
    # Close by, to second order in the spacing: the optimum is where the grid has its minimum.
    steps = np.linspace(-0.02, 0.02, 41)
    near = numpy_loss(k, (found.norm + steps[:, None]) ** 2, found.bias + steps[None, :])
    assert np.unravel_index(near.argmin(), near.shape) == (20, 20)


@pytest.mark.parametrize(
    ("k", "norm", "bias", "loss"),
    [
        (12, 1.03322, -0.46654, 0.195907),
        (16, 1.03015, -0.54993, 0.229953),
    ],
)
def test_polygons_that_once_ended_on_the_plateau(kgons, k, norm, bias, loss):
    found = kgons[k]
    assert found.norm == pytest.approx(norm, abs=6e-6)
    assert found.bias == pytest.approx(bias, abs=6e-6)
    assert found.loss == pytest.approx(loss, abs=6e-7)


@pytest.mark.parametrize(
    ("k", "norm", "bias", "h", "loss"),
    [
        (4, 1, 0, 0, 0),
        (5, 1.17046, -0.28230, 0.23738, 0.01583),
        (6, 1.32053, -0.61814, 0.86746, 0.04819),
    ],
)
def test_T9_table(kgons, k, norm, bias, h, loss):
    found = kgons[k]
    assert found.norm == pytest.approx(norm, abs=1e-5)
    assert found.bias == pytest.approx(bias, abs=1e-5)
    assert found.h == pytest.approx(h, abs=1e-5)
    assert found.loss == pytest.approx(loss, abs=5.1e-6)


@pytest.mark.parametrize(
    ("k", "c", "n_positive", "loss"),
    [
        (4, 5, 0, 0.06667),
        (4, 5, 1, 0.05667),
        (4, 6, 0, 0.11111),
        (4, 6, 1, 0.10417),
        (5, 6, 0, 0.06874),
    ],
)
def test_T9_potentials_with_dead_features(kgons, x64, k, c, n_positive, loss):
    found = kgons[k]
    potential = kgon_potential(found.h, k, c, n_positive=n_positive)
    assert potential == pytest.approx(loss, abs=5.1e-6)
    weights = kgon_weights(k, c, found.norm, found.bias, n_positive=n_positive)
    assert float(one_hot_loss(weights)) == pytest.approx(potential, abs=1e-13)


def test_T9_k_gons_are_critical_points_of_all_weights(kgons, x64):
    gradient = jax.jit(jax.grad(one_hot_loss))
    for k in (4, 5, 6, 12):
        found = kgons[k]
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


def disjoint(n_points: int) -> np.ndarray:
    """Samples of unit norm with three features each."""
    values = np.random.default_rng(n_points).uniform(0.1, 1, (n_points, 3))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    x = np.zeros((3 * n_points, n_points))
    for t in range(n_points):
        x[3 * t : 3 * t + 3, t] = values[t]
    return x


def test_a_tgon_memorises_from_its_least_norm_on() -> None:
    for size in (3, 4, 7):
        x = disjoint(size)
        least = float(tgon_norm(size))
        assert least == pytest.approx((1 - np.cos(2 * np.pi / size)) ** -0.5, rel=1e-12)
        losses = []
        for norm in (least, 1.3 * least, 0.9 * least):
            W, b = tgon_weights(x, norm)
            losses.append(reconstruction_loss(W, b, x))
            np.testing.assert_allclose(np.linalg.norm(W @ x, axis=0), norm, rtol=1e-12)
        assert max(losses[:2]) < 1e-24
        # Both neighbours of a sample are driven to 1 - 0.81.
        assert losses[2] == pytest.approx(2 * 0.19**2, rel=1e-9)
    with jax.enable_x64(True):
        np.testing.assert_allclose(dimensionality(jnp.asarray(W @ x)), 2 / 7, rtol=1e-9)


def test_curvatures_are_those_of_the_gradient_and_one_is_the_rotation(kgons, x64):
    gradient = jax.jit(jax.grad(one_hot_loss))
    for k, left_out in ((5, 0), (5, 1)):
        at = kgon_weights(k, k + left_out, kgons[k].norm, kgons[k].bias, n_positive=left_out)
        found = critical_point(at)
        assert found.slope < 1e-7
        assert found.curvatures.shape == (3 * (k + left_out),)
        assert np.sum(np.abs(found.curvatures) < 1e-9) == 1
        # One step along a feature's bias: the largest change of the gradient is no surprise.
        step = 1e-5
        moved = gradient(TiedWeights(at.W, at.b.at[0].add(step)))
        change = np.linalg.norm(np.concatenate([np.ravel(leaf) for leaf in moved])) / step
        assert found.curvatures[0] - 1e-6 <= change <= found.curvatures[-1] + 1e-6
    turned = TiedWeights(jnp.asarray([[0.8, -0.6], [0.6, 0.8]]) @ at.W, at.b)
    np.testing.assert_allclose(critical_point(turned).curvatures, found.curvatures, atol=1e-9)
