"""S0 Theorem 27 and Corollary 28: as printed, as proved, as corrected (E8, E9, E10)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.keys import member_keys
from circuitax.projection.distortion import distortion
from circuitax.projection.laws import failure_probability, ratio_cdf
from circuitax.projection.maps import MapFamily, MapSpec, pair_ratios, project
from circuitax.projection.stream import summarise
from circuitax.projection.tails import proof_constant, statement_constant
from circuitax.projection.theorem import (
    cosine_bound,
    cosine_hypothesis,
    distance_ratios,
    inner_product_bound,
    proof_bounds,
    statement_bounds,
    two_sided_bounds,
)

EPSILON, N_POINTS, DIM_IN, N_MAPS = 0.5, 40, 64, 30


def failing_maps(family: MapFamily, dim_out: int, bounds: tuple[float, float]) -> int:
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
    assert failing_maps(MapFamily.rademacher, dim_out, statement_bounds(EPSILON)) == 0
    # Far below the constant it fails: the test can tell.
    assert failing_maps(MapFamily.rademacher, dim_out // 8, statement_bounds(EPSILON)) > 25


def test_S0_theorem_27_proof_holds_for_the_proofs_map_and_bounds() -> None:
    dim_out = int(np.ceil(proof_constant(EPSILON) * np.log(N_POINTS) / EPSILON**2))
    assert failing_maps(MapFamily.proof, dim_out, proof_bounds(EPSILON)) == 0
    # The proof asks for a failure probability below 1: some map keeps all pairs, most do here.
    assert failing_maps(MapFamily.proof, dim_out, two_sided_bounds(EPSILON)) < N_MAPS // 4


def test_S0_theorem_27_bounds_are_nested_as_the_proof_says() -> None:
    for epsilon in (0.01, 0.3, 0.99):
        inner, outer = two_sided_bounds(epsilon), proof_bounds(epsilon)
        assert outer.low <= inner.low < inner.high <= outer.high
        # Rescaled by 1/(1+ε), the proof's interval lies inside the statement's.
        stated = statement_bounds(epsilon)
        assert stated.low <= outer.low / (1 + epsilon)
        assert outer.high / (1 + epsilon) <= stated.high + 1e-15


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
    event = two_sided_bounds(epsilon)
    # The zero map satisfies the printed inequality at every pair and keeps no distance.
    ratio = 0.0
    assert not ratio - (1 + epsilon) > (epsilon / 2) * (1 + epsilon)
    assert ratio < event.low
    # For the Gaussian analogue the printed probability is about half of what must be bounded.
    low, high = event.low / (1 + epsilon), event.high / (1 + epsilon)
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


def test_S0_corollary_28_over_a_cloud_and_zero() -> None:
    epsilon = 0.4
    points = jax.random.normal(jax.random.key(8), (20, 50)) * jnp.arange(1.0, 21.0)[:, None]
    cloud = cosine_hypothesis(points)
    spec = MapSpec(MapFamily.rademacher, 50, 400)
    images = project(jax.random.key(9), cloud, spec)
    assert np.abs(distance_ratios(np.asarray(cloud), np.asarray(images)) - 1).max() <= epsilon
    u, v = np.asarray(cloud[1:], np.float64), np.asarray(images[1:], np.float64)
    assert np.abs(v @ v.T - u @ u.T).max() <= inner_product_bound(epsilon)
    w = np.asarray(project(jax.random.key(9), points, spec), np.float64)
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    assert np.abs(w @ w.T - u @ u.T).max() <= cosine_bound(epsilon)


def test_cosine_hypothesis_is_unit_points_after_zero() -> None:
    found = np.asarray(cosine_hypothesis(jnp.array([[3.0, 4.0], [0.0, -2.0]])))
    np.testing.assert_allclose(found, [[0, 0], [0.6, 0.8], [0, -1]], rtol=1e-6)


def test_refusals_name_the_argument() -> None:
    for bound in (
        statement_bounds,
        proof_bounds,
        two_sided_bounds,
        inner_product_bound,
        cosine_bound,
    ):
        for epsilon in (0.0, 1.0):
            with pytest.raises(ValueError, match=r"epsilon=.* must be in \(0, 1\)"):
                bound(epsilon)
    with pytest.raises(ValueError, match=r"rows \[1\]"):
        cosine_hypothesis(jnp.array([[1.0, 0.0], [0.0, 0.0]]))
    with pytest.raises(ValueError, match=r"rows \[0\]"):
        cosine_hypothesis(jnp.array([[jnp.nan, 0.0], [1.0, 0.0]]))
    with pytest.raises(ValueError, match="distinct; 1 pairs"):
        distance_ratios(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="2001 rows"):
        distance_ratios(np.ones((2001, 1)), np.ones((2001, 1)))
