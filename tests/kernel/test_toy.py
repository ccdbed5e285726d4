"""Toy models: moments of their features, their forward passes, and the pentagon."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from circuitax.kernel.toy import (
    dense_forward,
    feature_columns,
    pentagon_weights,
    sample_anticorrelated,
    sample_correlated,
    tied_forward,
)
from circuitax.kernel.weights import DenseLayer, DenseWeights, TiedWeights

BATCH = 40_000
DENSITY = np.array([0.0, 0.02, 0.3, 1.0])


def sample(signed: bool = False) -> np.ndarray:
    u = jax.random.uniform(jax.random.key(1), (len(DENSITY), BATCH), jnp.float32)
    x = feature_columns(u, jnp.asarray(DENSITY, jnp.float32), signed=signed)
    return np.asarray(x.T, np.float64)


def assert_mean(values: np.ndarray, mean: float, second: float) -> None:
    """Five standard errors from the closed form: false-alarm rate 6e-7 a comparison."""
    error = np.sqrt(max(second - mean**2, 0) / len(values))
    assert abs(values.mean() - mean) <= 5 * error + 1e-12


@pytest.mark.parametrize("signed", [False, True])
def test_columns_are_numpys(signed: bool, x64: None, rng: np.random.Generator) -> None:
    u = rng.uniform(size=(4, 50))
    p = DENSITY[:, None]
    value = u / np.where(p > 0, p, 1)
    expected = np.where(u < p, 2 * value - 1 if signed else value, 0)
    found = feature_columns(jnp.asarray(u), jnp.asarray(DENSITY), signed=signed)
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)


def test_moments_are_p_over_2_and_p_over_3() -> None:
    x = sample()
    for i, p in enumerate(DENSITY):
        assert_mean(x[:, i], p / 2, p / 3)
        assert_mean(x[:, i] ** 2, p / 3, p / 5)


@pytest.mark.parametrize("signed", [False, True])
def test_active_values_are_uniform(signed: bool) -> None:
    """Kolmogorov-Smirnov at a fixed key; false-alarm rate 1e-4 a feature."""
    x = sample(signed=signed)
    low = -1.0 if signed else 0.0
    for i in (1, 2, 3):
        active = x[x[:, i] != 0, i]
        assert active.min() >= low and active.max() <= 1
        assert stats.kstest(active, stats.uniform(low, 1 - low).cdf).pvalue > 1e-4


def test_correlated_members_share_the_switch_and_nothing_else() -> None:
    p = 0.3
    x = np.asarray(
        sample_correlated(jax.random.key(2), jnp.array([p, 0.7]), BATCH, set_size=3), np.float64
    )
    on = (x != 0).reshape(BATCH, 2, 3)
    assert np.all(on.all(axis=2) == on.any(axis=2))
    assert_mean(on[:, 0, 0], p, p)
    assert_mean(on[:, 0, 0] & on[:, 1, 0], p * 0.7, p * 0.7)
    both = x[on[:, 0, 0], :2]
    assert abs(np.corrcoef(both.T)[0, 1]) < 5 / np.sqrt(len(both))
    assert stats.kstest(both[:, 1], stats.uniform.cdf).pvalue > 1e-4


def test_anticorrelated_sets_have_one_member_on() -> None:
    p, size = 0.6, 3
    x = np.asarray(
        sample_anticorrelated(jax.random.key(3), jnp.array([p, 0.1]), BATCH, set_size=size),
        np.float64,
    )
    on = (x != 0).reshape(BATCH, 2, size)
    assert on.sum(axis=2).max() == 1
    assert_mean(on[:, 0].any(axis=1), p, p)
    for member in range(size):
        assert_mean(on[:, 0, member], p / size, p / size)
        active = x[on[:, 0, member], member]
        assert stats.kstest(active, stats.uniform.cdf).pvalue > 1e-4


FEATURES = (1, 2, 3, 4, 5)  # k, as S0 counts


def pentagon_oracle(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """S0 Example 26 in columns, float64: output and hidden pre-activation."""
    v = np.stack([[np.cos(2 * np.pi * k / 5), np.sin(2 * np.pi * k / 5)] for k in FEATURES], 1)
    b1 = np.array([0.82, 0.97])
    hidden = v @ x + b1
    z = 1.5 * v.T @ np.maximum(hidden, 0) - 1.5 * v.T @ b1 - 0.5
    return np.maximum(z, 0), hidden


def unit(*active: int) -> np.ndarray:
    x = np.zeros(5)
    x[[k - 1 for k in active]] = 1.0
    return x


@pytest.mark.parametrize("activation", ["relu", "linear"])
@pytest.mark.parametrize("hidden_relu", [False, True])
def test_tied_forward_is_the_papers_column_form(
    x64: None, rng: np.random.Generator, activation: str, hidden_relu: bool
) -> None:
    W, b, x = rng.standard_normal((2, 5)), rng.standard_normal(5), rng.standard_normal((4, 5))
    weights = TiedWeights(jnp.asarray(W), jnp.asarray(b))
    got = tied_forward(weights, jnp.asarray(x), activation, hidden_relu=hidden_relu)
    for row, x_hat in zip(x, np.asarray(got), strict=True):
        h = W @ row
        z = W.T @ (np.maximum(h, 0) if hidden_relu else h) + b
        np.testing.assert_allclose(x_hat, np.maximum(z, 0) if activation == "relu" else z, 1e-12)


def test_dense_forward_of_three_layers(x64: None, rng: np.random.Generator) -> None:
    sizes = (4, 3, 6, 2)
    layers = [
        (rng.standard_normal((i, o)), rng.standard_normal(o)) for i, o in itertools.pairwise(sizes)
    ]
    weights = DenseWeights(tuple(DenseLayer(jnp.asarray(W), jnp.asarray(b)) for W, b in layers))
    x = rng.standard_normal((7, 4))
    z1 = x @ layers[0][0] + layers[0][1]
    z2 = np.maximum(z1, 0) @ layers[1][0] + layers[1][1]
    z3 = np.maximum(z2, 0) @ layers[2][0] + layers[2][1]
    linear, pre = dense_forward(weights, jnp.asarray(x), output_relu=False)
    for got, want in zip((*pre, linear), (z1, z2, z3, z3), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    rectified, _ = dense_forward(weights, jnp.asarray(x))
    np.testing.assert_allclose(rectified, np.maximum(z3, 0), rtol=1e-12, atol=1e-12)
    assert (z3 < 0).any()


def test_S0_section_7_a_layer_is_neurons_side_by_side(x64: None, rng: np.random.Generator) -> None:
    """``n(x) = σ(w·x + b)`` measures alignment with w; a layer is one neuron a row of its W."""
    W, b, x = rng.standard_normal((6, 3)), rng.standard_normal(6), rng.standard_normal((8, 3))

    def neuron(w: np.ndarray, bias: float, x: np.ndarray) -> float:
        return max(float(np.dot(w, x)) + bias, 0.0)

    layer = DenseWeights((DenseLayer(jnp.asarray(W.T), jnp.asarray(b)),))
    h, _ = dense_forward(layer, jnp.asarray(x))
    want = [[neuron(W[k], b[k], row) for k in range(6)] for row in x]
    np.testing.assert_allclose(h, want, rtol=1e-12, atol=1e-12)
    assert (np.asarray(h) == 0).any() and (np.asarray(h) > 0).any()
    # Along its own direction a neuron only rises; across it, it does not change.
    across = np.cross(W[0], W[1])
    probes = np.stack([x[0] + t * v for v in (W[0], across) for t in (0.0, 1.0, 2.0)])
    first = np.asarray(dense_forward(layer, jnp.asarray(probes))[0])[:, 0]
    assert (np.diff(first[:3]) >= 0).all() and first[2] > first[0]
    np.testing.assert_allclose(first[3:], first[3], rtol=1e-12, atol=1e-12)


def test_S0_figure_1_from_e1_through_two_numbers_and_back(x64: None) -> None:
    """e_1 becomes v_1, interferes with all five directions, and is decoded to e_1."""
    weights = pentagon_weights()
    x_hat, (hidden, z) = dense_forward(weights, jnp.asarray(unit(1))[None])
    v_1 = np.array([np.cos(2 * np.pi / 5), np.sin(2 * np.pi / 5)])
    np.testing.assert_allclose(hidden[0] - weights.layers[0].b, v_1, atol=1e-12)
    overlaps = np.cos(2 * np.pi * np.arange(5) / 5)
    np.testing.assert_allclose(z[0], 1.5 * overlaps - 0.5, atol=1e-12)
    assert np.abs(overlaps[1:]).min() > 0.3, "no two of the five directions are orthogonal"
    np.testing.assert_allclose(x_hat[0], unit(1), atol=1e-12)


def test_S0_example_26_single_features_come_back_exactly(x64: None) -> None:
    x_hat, (z1, z2) = dense_forward(pentagon_weights(), jnp.eye(5))
    np.testing.assert_allclose(x_hat, np.eye(5), atol=1e-12)
    assert np.all(np.asarray(z1) > 0), "v_k + b1 > 0 for any v_k"
    off = np.asarray(z2)[~np.eye(5, dtype=bool)]
    assert off.max() == pytest.approx(1.5 * np.cos(2 * np.pi / 5) - 0.5, abs=1e-12)
    assert off.max() == pytest.approx(-0.04, abs=0.005)


def test_S0_example_26_non_adjacent_pair_is_erased(x64: None) -> None:
    _, (_, z) = dense_forward(pentagon_weights(), jnp.asarray(unit(1, 3))[None])
    assert float(z[0, 0]) == pytest.approx(-0.21, abs=0.005)


def test_E44_five_directions_in_a_plane_are_not_almost_orthogonal(x64: None) -> None:
    """Printed: "almost orthogonal". Overlaps are 0.309 and -0.809; only the positive ones hurt."""
    v = np.asarray(pentagon_weights().layers[0].W)  # a feature in each row
    overlap = (v @ v.T)[~np.eye(5, dtype=bool)]
    np.testing.assert_allclose(np.unique(overlap.round(9)), np.cos([0.8 * np.pi, 0.4 * np.pi]))
    # By Welch, no five unit vectors of a plane have all overlaps below 0.61 in size.
    assert np.abs(overlap).max() > (5 - 2) ** 0.5 / (2 * (5 - 1)) ** 0.5 > 0.6
    assert 1.5 * overlap.max() - 0.5 < 0 < 1.5 * np.abs(overlap).max() - 0.5


def test_E6_conservation_holds_at_magnitude_one_only(x64: None) -> None:
    a = np.linspace(0, 3, 61)
    for k in FEATURES:
        x = a[:, None] * unit(k)[None]
        x_hat, (hidden, _) = dense_forward(pentagon_weights(), jnp.asarray(x))
        x_hat, linear = np.asarray(x_hat), np.asarray(hidden).min(axis=1) >= 0
        own = x_hat[:, k - 1]
        np.testing.assert_allclose(own[linear], np.maximum(1.5 * a - 0.5, 0)[linear], atol=1e-12)
        assert np.all(own[a <= 1 / 3] == 0), "erased"
        assert own[a == 0.5] == pytest.approx(0.25), "the printed form would give 0.5"
        want = np.stack([pentagon_oracle(row)[0] for row in x])
        np.testing.assert_allclose(x_hat, want, atol=1e-12)


def first_magnitude(condition: np.ndarray, a: np.ndarray) -> float:
    return float(a[np.argmax(condition)]) if condition.any() else float("inf")


def test_E6_onsets_of_clipping_and_hallucination(x64: None) -> None:
    a = np.arange(0, 3, 1e-4)
    clip, neighbour = {}, {}
    for k in FEATURES:
        x = jnp.asarray(a[:, None] * unit(k)[None])
        x_hat, (hidden, _) = dense_forward(pentagon_weights(), x)
        clip[k] = first_magnitude(np.asarray(hidden).min(axis=1) < 0, a)
        others = np.delete(np.asarray(x_hat), k - 1, axis=1)
        neighbour[k] = first_magnitude(others.max(axis=1) > 0, a)
    assert clip[2] == clip[3] == pytest.approx(1.0136, abs=1e-4)
    assert clip[4] == pytest.approx(1.0199, abs=1e-4)
    assert clip[1] == clip[5] == float("inf")
    assert neighbour[2] == neighbour[3] == pytest.approx(1.05, abs=0.005)
    for k in (1, 4, 5):
        assert neighbour[k] == pytest.approx(1.08, abs=0.005)


# Pair: what comes out (feature: value), and the hidden unit that clips. E7.
ADJACENT = {
    (1, 2): ({1: 1.4635, 2: 1.4635}, None),
    (1, 5): ({1: 1.4635, 5: 1.4635}, None),
    (4, 5): ({4: 1.4635, 5: 1.4635}, None),
    (2, 3): ({2: 0.4951, 3: 0.4951}, 0),
    (3, 4): ({3: 0.9620, 4: 0.6520}, 1),
}
BETWEEN = {(1, 3): 2, (2, 4): 3, (3, 5): 4, (1, 4): 5, (2, 5): 1}


def test_E7_all_ten_pairs(x64: None) -> None:
    invented = {pair: ({middle: 0.4271}, None) for pair, middle in BETWEEN.items()}
    table = ADJACENT | invented
    assert set(table) == set(itertools.combinations(FEATURES, 2))
    for pair, (output, clipped) in table.items():
        x_hat, (hidden, _) = dense_forward(pentagon_weights(), jnp.asarray(unit(*pair))[None])
        want = np.zeros(5)
        for k, value in output.items():
            want[k - 1] = value
        np.testing.assert_allclose(x_hat[0], want, atol=1e-4, err_msg=str(pair))
        np.testing.assert_allclose(x_hat[0], pentagon_oracle(unit(*pair))[0], atol=1e-12)
        below = np.flatnonzero(np.asarray(hidden[0]) < 0)
        assert list(below) == ([] if clipped is None else [clipped]), pair
