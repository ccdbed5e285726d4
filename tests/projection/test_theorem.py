"""S0 Theorem 27 and Corollary 28: as printed, as proved, as corrected (E8, E9, E10)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.keys import member_keys
from circuitax.projection.distortion import distortion
from circuitax.projection.laws import (
    failure_probability,
    proof_constant,
    ratio_cdf,
    statement_constant,
)
from circuitax.projection.maps import MapFamily, MapSpec, pair_ratios, project
from circuitax.projection.stream import summarise
from circuitax.projection.theorem import (
    Bounds,
    Counterexample,
    corollary_28,
    cosine_bound,
    cosine_hypothesis,
    failing_maps,
    inner_product_bound,
    proof_bounds,
    proof_map_products,
    statement_bounds,
    unequal_norms,
    without_origin,
)

EPSILON, N_POINTS, DIM_IN, N_MAPS = 0.5, 40, 64, 30


def distance_ratios(points: np.ndarray, images: np.ndarray) -> np.ndarray:
    """All ``‖f(x) − f(y)‖² / ‖x − y‖²`` of a small set."""
    x, y = np.asarray(points, np.float64), np.asarray(images, np.float64)
    i, j = np.triu_indices(len(x), 1)
    return ((y[i] - y[j]) ** 2).sum(1) / ((x[i] - x[j]) ** 2).sum(1)


def count_failing(family: MapFamily, dim_out: int, bounds: tuple[float, float]) -> int:
    """Maps out of N_MAPS under which some pair of a fixed cloud leaves the bounds."""
    points = jax.random.normal(jax.random.key(1), (N_POINTS, DIM_IN))
    spec = MapSpec(family, DIM_IN, dim_out, EPSILON if family is MapFamily.proof else None)
    edges = jnp.array([bounds]) - 1

    def one(key: jax.Array):
        return distortion(points, project(key, points, spec), edges, block=40, n_bins=0)

    found = summarise(jax.jit(jax.vmap(one))(member_keys(jax.random.key(2), N_MAPS)))
    return int(((found.below + found.above)[:, 0] > 0).sum())


def test_S0_theorem_27_statement_holds_for_signs_over_root_m() -> None:
    dim_out = int(np.ceil(statement_constant(EPSILON) * np.log(N_POINTS) / EPSILON**2))
    assert count_failing(MapFamily.rademacher, dim_out, statement_bounds(EPSILON)) == 0
    # Far below the constant it fails: the test can tell.
    assert count_failing(MapFamily.rademacher, dim_out // 8, statement_bounds(EPSILON)) > 25


def test_S0_theorem_27_proof_holds_for_the_proofs_map_and_bounds() -> None:
    dim_out = int(np.ceil(proof_constant(EPSILON) * np.log(N_POINTS) / EPSILON**2))
    assert count_failing(MapFamily.proof, dim_out, proof_bounds(EPSILON)) == 0


@pytest.mark.parametrize("name", ["lecun", "glorot", "he", "orthogonal"])
def test_S0_section_7_random_initial_weights_suffice(name: str) -> None:
    """Nothing handcrafted: what Flax draws for a layer keeps all pairs, once its gain is 1."""
    epsilon, dim_in = 0.3, 512
    points = jax.random.normal(jax.random.key(1), (12, dim_in))

    def ratios(dim_out: int) -> np.ndarray:
        spec = MapSpec(MapFamily[name], dim_in, dim_out, unit_gain=True)
        images = project(jax.random.key(4), points, spec)
        return distance_ratios(np.asarray(points), np.asarray(images))

    enough = int(np.ceil(statement_constant(epsilon) * np.log(12) / epsilon**2))
    assert enough < dim_in
    assert np.abs(ratios(enough) - 1).max() <= epsilon
    assert np.abs(ratios(enough // 16) - 1).max() > epsilon, "a layer too narrow does not"


@pytest.mark.parametrize(
    ("name", "gain"),
    [("lecun", 280 / 1024), ("orthogonal", 280 / 1024), ("he", 560 / 1024), ("glorot", 560 / 1304)],
    ids=["lecun", "orthogonal", "he", "glorot"],
)
def test_E43_initial_weights_keep_distances_up_to_a_factor_only(name: str, gain: float) -> None:
    """S0 takes the maps of initialisation for those of the theorem: they shrink every distance."""
    points = jax.random.normal(jax.random.key(1), (12, 1024))

    def ratios(unit_gain: bool) -> np.ndarray:
        spec = MapSpec(MapFamily[name], 1024, 280, unit_gain=unit_gain)
        images = project(jax.random.key(4), points, spec)
        return distance_ratios(np.asarray(points), np.asarray(images))

    epsilon = 0.3
    assert ratios(unit_gain=False).max() < 1 - epsilon, "as printed, no pair keeps the bound"
    assert np.abs(ratios(unit_gain=True) - 1).max() <= epsilon
    np.testing.assert_allclose(ratios(False).mean(), gain, rtol=0.05)


def test_E8_the_proofs_map_breaks_the_statement_for_half_of_the_pairs() -> None:
    n_maps, dim_out, epsilon = 4000, 200, 0.3
    z = jax.random.normal(jax.random.key(0), (32,))
    keys = member_keys(jax.random.key(5), n_maps)
    stated, proved = statement_bounds(epsilon), proof_bounds(epsilon)
    proof = np.asarray(pair_ratios(keys, z, MapSpec(MapFamily.proof, 32, dim_out, epsilon)))
    signs = np.asarray(pair_ratios(keys, z, MapSpec(MapFamily.rademacher, 32, dim_out)))
    # Printed: the upper bound fails for about half; five standard errors of a half.
    assert abs((proof > stated.high).mean() - 0.5) < 0.02 + 5 * 0.5 / np.sqrt(n_maps)
    # Corrected, both ways: each map against its own bound.
    assert ((proof < proved.low) | (proof > proved.high)).mean() < 0.02
    assert ((signs < stated.low) | (signs > stated.high)).mean() < 0.01
    # And signs over √m do not satisfy the proof's bound: below 1 for about half.
    assert abs((signs < proved.low).mean() - 0.5) < 0.02 + 5 * 0.5 / np.sqrt(n_maps)


def test_E9_without_the_absolute_value_the_lower_side_is_lost() -> None:
    epsilon, dim_out = 0.2, 100
    # The event of the union bound has an absolute value, ``|ratio - (1+ε)| > ε/2 (1+ε)``.
    low, high = 1 - epsilon / 2, 1 + epsilon / 2
    # The zero map satisfies the printed inequality at every pair and keeps no distance.
    ratio = 0.0
    assert not ratio - (1 + epsilon) > (epsilon / 2) * (1 + epsilon)
    assert ratio < low * (1 + epsilon)
    # For the Gaussian analogue the printed probability is about half of what must be bounded.
    printed = 1 - ratio_cdf(high, dim_out)
    both = failure_probability(dim_out, low, high)
    assert 0.4 < printed / both < 0.6
    np.testing.assert_allclose(both, printed + ratio_cdf(low, dim_out), rtol=1e-12)


def corollary_errors(scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random planar maps near ``scale`` times an isometry: ratios on {0, x, y}, and both errors."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, np.pi, 20_000)
    x = np.stack([np.ones_like(angle), np.zeros_like(angle)], 1)
    y = np.stack([np.cos(angle), np.sin(angle)], 1)
    P = scale * (np.eye(2) + rng.normal(scale=0.06, size=(20_000, 2, 2)))
    u, v = (np.einsum("ki,kij->kj", z, P) for z in (x, y))

    def sq(z: np.ndarray) -> np.ndarray:
        return (z * z).sum(1)

    ratios = np.stack([sq(u), sq(v), sq(u - v) / sq(x - y)])
    inner = np.abs((u * v).sum(1) - (x * y).sum(1))
    cosine = np.abs((u * v).sum(1) / np.sqrt(sq(u) * sq(v)) - (x * y).sum(1))
    return ratios, inner, cosine


def test_S0_corollary_28_holds_where_f_keeps_the_unit_points_and_zero() -> None:
    epsilon = 0.15
    ratios, inner, cosine = corollary_errors(1.0)
    kept = (np.abs(ratios - 1) <= epsilon).all(0)
    assert 1000 < kept.sum() < 19_000
    assert inner[kept].max() <= inner_product_bound(epsilon)
    assert cosine[kept].max() <= cosine_bound(epsilon)
    # The hypothesis is needed: maps that break it break the bound.
    assert inner[~kept].max() > inner_product_bound(epsilon)


def ratios(example: Counterexample) -> np.ndarray:
    return distance_ratios(example.points, example.points @ example.matrix)


def test_E10_without_zero_in_the_set_norms_are_free() -> None:
    example = without_origin()
    np.testing.assert_allclose(ratios(example), 1, rtol=1e-12)  # distortion 0 on Z
    for epsilon in (0.01, 0.1, 0.19):
        assert example.cosine_error() > cosine_bound(epsilon)
    assert example.cosine_error() == pytest.approx(1)
    assert example.inner_error() == pytest.approx(0.5)
    assert example.inner_error() > inner_product_bound(0.16)
    # Corrected: with 0 in the set the map is no longer admissible.
    corrected = example._replace(points=np.vstack([np.zeros(2), example.points]))
    stated = statement_bounds(0.19)
    assert not ((ratios(corrected) >= stated.low) & (ratios(corrected) <= stated.high)).all()


def test_E10_very_unequal_norms_break_the_cosine_bound_with_zero_in_the_set() -> None:
    epsilon = 0.1
    example = unequal_norms(15.0, epsilon)
    stated = statement_bounds(epsilon)
    found = ratios(example)
    assert ((found >= stated.low - 1e-12) & (found <= stated.high)).all()
    assert example.cosine_error() == pytest.approx(0.75, abs=0.005)
    assert example.cosine_error() > cosine_bound(epsilon)
    # Corrected: on the normalised points the map is not admissible.
    unit = example.points[1:] / np.linalg.norm(example.points[1:], axis=1, keepdims=True)
    normalised = example._replace(points=np.vstack([np.zeros(2), unit]))
    assert ratios(normalised).min() < stated.low
    # Equal norms: the same construction stays inside the bound.
    equal = unequal_norms(1.0, epsilon)
    assert equal.cosine_error() == pytest.approx(0.1) and equal.cosine_error() < cosine_bound(0.1)


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.2])
def test_E8_the_proofs_bounds_allow_inner_products_past_three_epsilon(epsilon: float) -> None:
    example = proof_map_products(epsilon)
    proved, found = proof_bounds(epsilon), ratios(example)
    assert (found >= proved.low - 1e-12).all() and (found <= proved.high + 1e-12).all()
    np.testing.assert_allclose(np.linalg.norm(example.points[1:], axis=1), 1)
    assert example.inner_error() > inner_product_bound(epsilon)
    # Corrected: after division by √(1+ε) the statement's bounds and 3ε both hold.
    rescaled = example._replace(matrix=example.matrix / np.sqrt(1 + epsilon))
    stated = statement_bounds(epsilon)
    assert (ratios(rescaled) >= stated.low).all()
    assert (ratios(rescaled) <= stated.high + 1e-12).all()
    assert rescaled.inner_error() <= inner_product_bound(epsilon)


SPEC = MapSpec(MapFamily.gaussian, 12, 40)
KEYS = member_keys(jax.random.key(3), 6)
POINTS = jax.random.normal(jax.random.key(0), (9, 12)) * jnp.arange(1.0, 10.0)[:, None]


def test_failing_maps_are_those_with_a_pair_outside() -> None:
    bounds = (Bounds(0.6, 1.4), Bounds(0.5, 1.6), Bounds(0.9, 9.0))
    found = failing_maps(KEYS, POINTS, SPEC, bounds)
    for k, key in enumerate(KEYS):
        ratios = distance_ratios(np.asarray(POINTS), np.asarray(project(key, POINTS, SPEC)))
        expected = [((ratios < low) | (ratios > high)).any() for low, high in bounds]
        np.testing.assert_array_equal(found[k], expected)
    assert found.any() and not found.all()


def test_S0_corollary_28_at_the_epsilon_of_each_map() -> None:
    found = corollary_28(KEYS, POINTS, SPEC)
    unit = np.asarray(cosine_hypothesis(POINTS))
    for k, key in enumerate(KEYS):
        images = np.asarray(project(key, jnp.asarray(unit), SPEC), np.float64)
        epsilon = np.abs(distance_ratios(unit, images) - 1).max()
        np.testing.assert_allclose(found.epsilon[k], epsilon, rtol=1e-4)
        u, v = unit[1:].astype(np.float64), images[1:]
        upper = np.triu_indices(9, 1)
        inner = np.abs(v @ v.T - u @ u.T)[upper]
        w = v / np.linalg.norm(v, axis=1, keepdims=True)
        cosine = np.abs(w @ w.T - u @ u.T)[upper]
        np.testing.assert_allclose(found.inner_share[k], inner.max() / (3 * epsilon), rtol=1e-3)
        share = cosine.max() * (1 - epsilon) / (4 * epsilon)
        np.testing.assert_allclose(found.cosine_share[k], share, rtol=1e-3)
    assert not found.inner.any() and not found.cosine.any()
