"""The proof for two features in one dimension: closed form, bounds, search, audit."""

from fractions import Fraction
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from circuitax.kernel.weights import TiedWeights
from circuitax.superposition import pair_loss, pair_proof
from circuitax.superposition.expected_loss import expected_loss
from circuitax.superposition.intervals import Interval
from circuitax.superposition.pair_loss import (
    PairClass,
    Plane,
    corner_bounds,
    lopsided,
    pair_classes,
    pair_energy,
    pair_error,
    pair_work,
    squares,
    steep_bound,
)
from circuitax.superposition.pair_proof import (
    Candidates,
    PairProof,
    Sample,
    _bounds,
    _Tiles,
    audit,
    exact_error,
    prove_pair,
)
from circuitax.superposition.polytopes import ignoring_limit, phases

RNG = np.random.default_rng(5)
N = 400
P, TILT, K, B = (
    RNG.uniform(low, high, N) for low, high in ((0.01, 1), (-1.5, 1.5), (-1.5, 1.5), (-2, 1.5))
)
U = np.hypot(TILT, K)


def test_closed_form_is_the_exact_engine(rng: np.random.Generator) -> None:
    """Against the loss by integrals over the law of the drive, which shares no formula with it."""
    W = rng.normal(size=(N, 2))
    b = rng.normal(size=(N, 2)) * 0.7
    r = rng.uniform(0.1, 10, N)
    k = W[:, 0] * W[:, 1]
    one, two = (pair_error(P, W[:, i] ** 2, k, b[:, i]) for i in (0, 1))
    with jax.enable_x64(True):
        engine = jax.jit(
            jax.vmap(
                lambda W, b, p, r: (
                    expected_loss(
                        TiedWeights(W[None], b), jnp.stack([p, p]), jnp.stack([1.0, r]), n_terms=0
                    ).value
                )
            )
        )
        expected = engine(*(jnp.asarray(v) for v in (W, b, P, r)))
    np.testing.assert_allclose(one + r * two, expected, rtol=1e-12, atol=1e-12)


def test_slopes_are_those_of_the_value() -> None:
    a, step = U + TILT, 1e-6
    found = pair_energy(P, a, K, B)
    for i, slope in enumerate(found[1:]):
        at = np.array([a, K, B])
        shift = step * np.eye(3)[i][:, None]
        up, down = (pair_energy(P, *(at + sign * shift)).value for sign in (1, -1))
        np.testing.assert_allclose(slope, (up - down) / (2 * step), atol=3e-8)


def random_boxes(size):
    """Boxes around random points, as ends of tilt, coupling and bias."""
    return [(centre - size / 2, centre + size / 2) for centre in (TILT, K, B)]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_corner_bounds_lie_below_the_loss_by_the_square_of_the_size(
    sign, rng: np.random.Generator
) -> None:
    missed = []
    for size in (0.2, 0.02):
        ends = random_boxes(size)
        corners = corner_bounds(0.3, np.full(N, sign), *ends)
        bound = np.min([end.low for pair in corners for end in pair], axis=0)
        at_ends = [np.array(at) for at in product(*ends)]
        inside = [np.array([rng.uniform(*end) for end in ends]) for _ in range(40)]
        seen = [
            pair_error(0.3, np.hypot(tilt, k) + sign * tilt, k, b)
            for tilt, k, b in [*at_ends, *inside]
        ]
        assert np.all(bound <= np.min(seen, axis=0))
        missed.append(np.median(np.min(seen, axis=0) - bound))
    assert missed[1] / missed[0] < 0.02  # a tenth of the size, a hundredth of the gap
    assert missed[0] < 0.02


def test_bounds_of_both_outputs_may_be_added_corner_by_corner(rng: np.random.Generator) -> None:
    """On boxes so large that a bound of 0, or that of steep gains, takes over at some corners."""
    size, r, p = 1.5, 0.7, 0.6
    centre = {"tilt": 3 * TILT, "coupling": 3 * K}
    plane = Plane(*(at - size / 2 for at in centre.values()), size, size)
    bias = {output: 2 * rng.uniform(-2, 1.5, N) - size / 2 for output in (0, 1)}
    tiles = _Tiles(
        np.tile(np.arange(N), 2), np.repeat([0, 1], N), np.concatenate([bias[0], bias[1]])
    )
    bounds, _ = _bounds(p, plane, squares(plane), tiles, size, 2)
    added = (bounds[:N] + r * bounds[N:]).min(axis=1)
    assert (added > 0).mean() > 0.3
    for _ in range(200):
        tilt, k = (at + size * rng.uniform(-0.5, 0.5, N) for at in centre.values())
        b = [bias[output] + size * rng.uniform(0, 1, N) for output in (0, 1)]
        u = np.hypot(tilt, k)
        loss = pair_error(p, u + tilt, k, b[0]) + r * pair_error(p, u - tilt, k, b[1])
        assert np.all(added <= loss)


def test_classes_and_squares_of_a_box_hold_those_of_its_members(rng: np.random.Generator) -> None:
    size = 0.25
    plane = Plane(TILT - size / 2, K - size / 2, size, size)
    ranges, held, sides = squares(plane), pair_classes(plane), lopsided(plane, 0.2)
    for _ in range(30):
        tilt, k = (centre + size * rng.uniform(-0.5, 0.5, N) for centre in (TILT, K))
        first, second = np.hypot(tilt, k) + tilt, np.hypot(tilt, k) - tilt
        assert np.all((ranges.first.low <= first) & (first <= ranges.first.high))
        assert np.all((ranges.second.low <= second) & (second <= ranges.second.high))
        names = phases(np.sqrt(second), first)  # interference is w_1^2 in one dimension
        superposed = np.where(k < 0, PairClass.antipodal, PairClass.aligned)
        number = np.where(names == "ignored", PairClass.ignored, PairClass.dedicated)
        number = np.where(names == "superposed", superposed, number)
        assert held[np.arange(N), number].all()
        assert sides[np.arange(N), (np.abs(tilt) > 0.2).astype(int)].all()
    assert held.sum(axis=1).mean() < 2.5  # not merely everything


def test_steep_gains_cost_what_the_bound_says(rng: np.random.Generator) -> None:
    gain = rng.uniform(4, 60, N)
    bound = steep_bound(0.3, Interval(gain))
    for offset in (-1.2, -0.9, -0.6, -0.3, 0.0, 0.1):
        assert np.all(pair_error(0.3, gain, K, offset * gain) >= bound)
    assert bound.min() > 0 and bound.max() > 0.09


# Optima to five digits; where a feature is ignored the proof has its own candidate.
OPTIMA = Candidates(
    np.array([[1.0104, -1.0104], [0.969, -0.969], [1.0353, -0.9184], [0.9184, -1.0353]]),
    np.array([[0.0178, 0.0178], [0.0977, 0.0977], [0.0106, 0.0455], [0.0455, 0.0106]]),
)
# At density 0.3, together, since they share the bounds.
TOGETHER = np.array([1.0, 0.2, 0.35, 1 / 0.35])


@pytest.fixture(scope="module")
def rare() -> PairProof:
    return prove_pair(0.3, TOGETHER, OPTIMA)


def test_the_proof_encloses_the_tabulated_optimum_and_names_its_class(rare: PairProof) -> None:
    """Losses of the reference page, to its last digit (T4)."""
    dense = prove_pair(0.5, np.array([1.0, 0.5]), OPTIMA)
    for found, expected in ((rare, [0.02931, 0.01550]), (dense, [0.07628, 0.05208])):
        assert np.all(found.upper - found.lower <= 1e-6)
        np.testing.assert_allclose(found.upper[:2], expected, atol=6e-6)
        assert found.possible[0].tolist() == [False, False, True, False]
        assert found.possible[1].tolist() == [True, False, False, False]
        assert found.second[1, 1] < 0.2
    # At r = 1 and p = 0.5 the weights are +-(0.969, -0.969).
    np.testing.assert_allclose(np.sqrt([dense.first[0], dense.second[0]]), 0.969, atol=0.03)


def test_swapping_the_features_inverts_the_importance(rare: PairProof) -> None:
    np.testing.assert_allclose(rare.upper[3], rare.upper[2] / 0.35, rtol=1e-6)
    assert rare.first[3, 0] <= rare.second[2, 1] and rare.second[2, 0] <= rare.first[3, 1]


def test_balls_repeat_the_bounds_of_the_search(rare: PairProof) -> None:
    again = audit(0.3, rare.sample)
    assert again.n_repeated == rare.sample.bound.size > 20
    assert again.n_wrong == 0 and 0 < again.greatest_loss < 1e-9
    raised_bounds = rare.sample._replace(bound=rare.sample.bound + 1e-9)
    assert audit(0.3, raised_bounds).n_wrong == again.n_repeated


def test_the_audit_has_a_loss_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``E[x relu(z)]`` halved, balls repeat what the search computed, and find nothing."""
    size, output = 0.1, np.repeat([0, 1], N // 2)
    plane = Plane(TILT - size / 2, K - size / 2, size, size)
    tiles = _Tiles(np.arange(N), output, B - size / 2)

    def wrong() -> int:
        _, sample = _bounds(0.4, plane, squares(plane), tiles, size, 40)
        return audit(0.4, sample).n_wrong

    assert wrong() == 0
    with monkeypatch.context() as patch:
        patch.setattr(pair_loss, "pair_work", lambda *given: 0.5 * pair_work(*given))
        assert wrong() > 10


def test_bounds_and_balls_that_are_no_numbers_are_wrong(rare: PairProof) -> None:
    some = Sample(*(part[:3] for part in rare.sample))
    for value in (np.nan, np.inf):
        assert audit(0.3, some._replace(bound=np.full(3, value))).n_wrong == 3
    # Where the coupling may be 0 balls divide by it, and hold every number.
    at_zero = some._replace(coupling=np.array([[0.0, 0.1]] * 3))
    assert audit(0.3, at_zero).n_wrong == 3


@pytest.mark.parametrize(("p", "r"), [(1e-4, 1e-5), (1e-4, 1e5), (1.0, 1.0)])
def test_the_search_begins_with_all_that_may_be_best_at_the_ends_of_the_range(p, r) -> None:
    """In exact rationals: which gains cannot be excluded by ``F >= (p/3) (1 - 4/a)``."""
    density, weight = Fraction(p), Fraction(r)
    ignored = density / 3 - density**2 / 4
    upper = min(ignored, weight * ignored)
    plane, tiles, size = pair_proof._start(p, np.array([r]), np.array([float(upper)]))
    steepest = [4 / (1 - 3 * upper / (density * w)) for w in (1, weight)]
    assert 2 * Fraction(plane.tilt.max() + plane.tilt_size) >= max(steepest)
    coupling = Fraction(plane.coupling.max() + plane.coupling_size)
    assert min(coupling, -Fraction(plane.coupling.min())) ** 2 >= steepest[0] * steepest[1]
    assert Fraction(tiles.bias.min()) <= -max(steepest) - Fraction(-plane.coupling.min())
    assert Fraction(tiles.bias.max() + size) >= 1 + Fraction(-plane.coupling.min())


@pytest.mark.parametrize("p", [0.2, 0.6, 0.9, 1.0])
def test_ignoring_limit_is_where_a_small_antipodal_feature_begins_to_pay(p) -> None:
    kappa, ignored = 0.01, p / 3 - p**2 / 4

    def gain(r):
        """What is gained over ignoring, by the best gain and biases at a small norm, in kappa^2."""

        def loss(z):
            w = 1 + kappa * z[0]
            one = pair_error(p, w**2, -kappa * w, kappa * z[1])
            two = pair_error(p, kappa**2, -kappa * w, p / 2 + kappa * z[2])
            return float(one + r * (two - ignored)) / kappa**2

        bounds = [(-1, 1), (0, 1), (-1, 1)]
        options = {"xatol": 1e-7, "fatol": 1e-10, "maxiter": 2000}
        start = [0.0, 0.3, 0.5 * p]
        found = optimize.minimize(loss, start, method="Nelder-Mead", bounds=bounds, options=options)
        return -found.fun

    limit = float(ignoring_limit(np.array(p)))
    assert gain(1.03 * limit) > 0 > gain(0.97 * limit)


numbers = st.fractions(min_value=-2, max_value=2, max_denominator=1000)
shares = st.fractions(min_value=0, max_value=1, max_denominator=1000)


def test_cases_by_hand() -> None:
    half, one, nothing = Fraction(1, 2), Fraction(1), Fraction(0)
    # Right for the own feature, and y too high when the other is on: p (1 - p) / 3 and, both on,
    # (x - (x + y))^2 again.
    assert exact_error(half, one, [one], nothing) == half * Fraction(1, 3)
    # Never on: E x^2.
    assert exact_error(half, one, [-one, one], Fraction(-9)) == half / 3
    # Half of the range of a steep output is cut off: int_0^1/2 x^2 + int_1/2^1 (x - 1/2)^2.
    assert exact_error(one, one, [], -half) == Fraction(1, 24) + Fraction(1, 8)
    # A constant, with no feature on: b^2 and the variance around it.
    assert exact_error(nothing, one, [one, one], half) == Fraction(1, 4)


@given(shares, numbers, st.lists(numbers, max_size=2), numbers)
def test_it_is_the_mean_over_a_grid(p, gain, couplings, bias) -> None:
    n = 60
    x = (np.arange(n) + 0.5) / n
    total = 0.0
    for on in np.ndindex(*[2] * (1 + len(couplings))):
        axes = np.meshgrid(*[x if one else np.zeros(1) for one in on], indexing="ij")
        slopes = [float(gain), *map(float, couplings)]
        drive = float(bias) + sum(k * axis for k, axis in zip(slopes, axes, strict=True))
        share = np.prod([float(p) if one else 1 - float(p) for one in on])
        total += share * ((axes[0] - np.maximum(drive, 0)) ** 2).mean()
    np.testing.assert_allclose(float(exact_error(p, gain, couplings, bias)), total, atol=6e-3)
