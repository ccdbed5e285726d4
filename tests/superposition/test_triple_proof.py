"""The proof for three features in two dimensions: closed form, bounds, boxes, search."""

from itertools import product

import numpy as np
import pytest

from circuitax.superposition import triple_loss
from circuitax.superposition.enumeration import enumerated_loss
from circuitax.superposition.polytopes import phases
from circuitax.superposition.triple_cells import (
    Grid,
    TripleClass,
    best_tiles,
    box_bounds,
    feasible,
    shared_cells,
    triple_classes,
)
from circuitax.superposition.triple_loss import (
    Cells,
    Couplings,
    steepness_bound,
    tile_bounds,
    triple_energy,
    triple_error,
    triple_work,
)
from circuitax.superposition.triple_proof import Sample, audit, prove_triple

RNG = np.random.default_rng(7)
N = 300
P, A, B = RNG.uniform(0.05, 1, N), RNG.uniform(0.05, 3, N), RNG.uniform(-1.5, 1, N)
K = Couplings(*RNG.uniform(0.05, 1.5, (2, N)) * RNG.choice([-1, 1], (2, N)))


def gram(W: np.ndarray) -> np.ndarray:
    """The six numbers of a box, ``[..., 6]``."""
    G = np.swapaxes(W, -1, -2) @ W
    return np.stack([G[..., i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))], -1)


def loss(W: np.ndarray, b: np.ndarray, p: float, r: float) -> float:
    a1, a2, a3, k12, k13, k23 = gram(W)
    rows = ((1, a1, k12, k13), (1, a2, k12, k23), (r, a3, k13, k23))
    return sum(
        weight * float(triple_error(p, a, Couplings(one, two), at))
        for (weight, a, one, two), at in zip(rows, b, strict=True)
    )


def test_closed_form_is_the_sum_over_all_patterns(rng: np.random.Generator) -> None:
    for p, r in ((0.3, 0.5), (0.9, 2.0)):
        W, b = rng.normal(size=(2, 3)), rng.normal(size=3) * 0.5
        expected = enumerated_loss(W, b, np.full(3, p), np.array([1.0, 1.0, r]))
        assert loss(W, b, p, r) == pytest.approx(expected, rel=1e-9)


def test_slopes_are_those_of_the_value_and_work_is_half_of_one() -> None:
    found, step = triple_energy(P, A, K, B), 1e-6

    def value(a: float = 0, one: float = 0, two: float = 0, b: float = 0) -> np.ndarray:
        return triple_energy(P, A + a, Couplings(K.one + one, K.two + two), B + b).value

    for slope, name in zip(found[1:], ("a", "one", "two", "b"), strict=True):
        numeric = (value(**{name: step}) - value(**{name: -step})) / (2 * step)
        np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(2 * triple_work(P, A, K, B), found.by_gain, rtol=1e-12)


def test_bounds_lie_below_every_member_and_come_closer_with_the_square_of_the_size(
    rng: np.random.Generator,
) -> None:
    p, missed = 0.3, []
    for size in (0.25, 0.125):
        low = np.stack([A, K.one + 2, K.two - 3], axis=1)
        cells = Cells(*(np.stack([x, x + size], axis=1) for x in low.T))
        first = np.floor(B / size).astype(int)
        tiles = tile_bounds(p, cells, first, np.full(N, 2), size)
        assert tiles.cell.tolist() == np.repeat(np.arange(N), 2).tolist()
        for share in rng.uniform(0, 1, (8, 4)):
            a, one, two = (low.T + share[:3, None] * size)[:, tiles.cell]
            b = tiles.bias[:, 0] + share[3] * size
            error = triple_error(p, a, Couplings(one, two), b)
            # A concave function above its values at the corners: so is their bilinear mean.
            weights = np.outer([1 - share[1], share[1]], [1 - share[2], share[2]]).ravel()
            assert (tiles.bound @ weights <= error + 1e-12).all()
            assert (tiles.bound.min(axis=1) <= error + 1e-12).all()
        corners = [
            triple_error(
                p,
                (low[:, 0] + ends[0] * size)[tiles.cell],
                Couplings(*((low[:, i] + ends[i] * size)[tiles.cell] for i in (1, 2))),
                tiles.bias[:, ends[3]],
            )
            for ends in product((0, 1), repeat=4)
        ]
        missed.append(np.mean(np.min(corners, axis=0) - tiles.bound.min(axis=1)))
    assert 0 < missed[1] < missed[0] / 2.5


def test_the_bound_of_a_box_lies_below_the_loss_of_its_members(rng: np.random.Generator) -> None:
    """Six numbers have a loss whether or not three directions have them: at corners and inside."""
    p, r, n = 0.4, 0.6, 20
    grid = Grid(norm=0.125, coupling=0.1875, bias=0.0625, reach=2.0)
    boxes = rng.integers([2, 2, 2, 4, 4, 4], [12, 12, 12, 17, 17, 17], (n, 6)).astype(np.int32)
    shared = shared_cells(grid, boxes)
    assert shared.turned.any() and not shared.turned.all()
    tiles = best_tiles(p, grid, shared, None, couplings_halved=False)
    bound, _ = box_bounds(r, 1.0, tiles, shared)
    low, high = grid.ends(boxes)
    b = np.linspace(-2, 1.2, 101)[:, None]

    def least(at: np.ndarray) -> np.ndarray:
        """The loss at the best of many biases of each output."""
        a1, a2, a3, k12, k13, k23 = at.T
        rows = ((1, a1, k12, k13), (1, a2, k12, k23), (r, a3, k13, k23))
        return sum(
            weight * triple_error(p, a, Couplings(one, two), b).min(axis=0)
            for weight, a, one, two in rows
        )

    corners = [least(np.where(ends, high, low)) for ends in product((False, True), repeat=6)]
    inside = [least(low + (high - low) * rng.uniform(0, 1, (n, 6))) for _ in range(10)]
    assert (bound <= np.min(corners, axis=0)).all() and (bound <= np.min(inside, axis=0)).all()
    assert np.mean(bound / np.min(corners, axis=0)) > 0.8


def test_long_features_cost_what_the_bound_says() -> None:
    for a in (2.0, 5.0, 20.0):
        drive = np.linspace(-1.2 * a, 1, 400)
        x = (np.arange(4000) + 0.5) / 4000
        error = ((x - np.maximum(a * x + drive[:, None], 0)) ** 2).mean(axis=1)
        bound = steepness_bound(1.0, np.array([a]))[0]
        assert bound <= error.min() * (1 + 1e-6)  # a sum over midpoints in place of an integral
        assert bound == pytest.approx(error.min(), rel=1e-3)


def test_boxes_around_gram_matrices_are_possible_and_hold_their_class(
    rng: np.random.Generator,
) -> None:
    W = rng.normal(size=(4000, 2, 3)) * rng.uniform(0.1, 1.2, size=(4000, 1, 3))
    at = gram(W)
    at = at[at[:, 0] >= at[:, 1]]
    size = rng.uniform(0.01, 0.3, size=(at.shape[0], 1))
    low = at - size * rng.uniform(0, 1, at.shape)
    assert feasible(low, low + size).all()
    interference = (at[:, 4] ** 2 + at[:, 5] ** 2) / at[:, 2]
    names = phases(np.sqrt(at[:, 2]), interference).astype(str)
    held = triple_classes(low, low + size)
    order = ["ignored", "dedicated", "superposed"]
    assert held[np.arange(at.shape[0]), [order.index(name) for name in names]].all()
    assert 0.02 < (held.sum(axis=1) == 1).mean() < 1
    # Of full rank: three orthogonal features, which two dimensions do not have.
    identity = np.array([[1.0, 1, 1, 0.01, 0.01, 0.01]])
    assert not feasible(identity - 0.05, identity + 0.05).any()


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_gram_matrices_without_any_room_are_possible(scale, rng: np.random.Generator) -> None:
    """Of few bits, so that a box of one point holds the exact matrix, whose determinant is 0."""
    W = np.round(rng.uniform(-1, 1, (20_000, 2, 3)) * 1024) / 1024 * scale
    at = gram(W)
    at = at[at[:, 0] >= at[:, 1]]
    assert feasible(at, at).all()
    with pytest.raises(ValueError, match=r"high\[0, 0\]=inf must be"):
        feasible(at[:1], np.full((1, 6), np.inf))


def test_exact_errors_find_bounds_that_are_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``E[x relu(z)]`` halved in the proof, which the exact error does not use."""
    size = 0.125
    low = np.stack([A, K.one + 2, K.two - 3], axis=1)
    cells = Cells(*(np.stack([x, x + size], axis=1) for x in low.T)).at(np.arange(12))

    def sample() -> Sample:
        tiles = tile_bounds(0.3, cells, np.floor(B[:12] / size).astype(int), np.ones(12, int), size)
        return Sample(*cells.at(tiles.cell), tiles.bias, tiles.bound)

    right = sample()
    assert audit(0.3, right) == (12, 0)
    assert audit(0.3, right._replace(bound=right.bound * np.nan)).n_wrong == 12
    monkeypatch.setattr(triple_loss, "triple_work", lambda *given: 0.5 * triple_work(*given))
    assert audit(0.3, sample()).n_wrong > 8


def test_a_proof_encloses_the_optimum_and_bounds_every_class(rng: np.random.Generator) -> None:
    """At density 0.3 and importance 0.5 features 2 and 3 are opposite, and nothing is ignored."""
    p, r = 0.3, 0.5
    W = np.array([[1.0, 1e-4, -1e-4], [1e-4, 1.0294, -0.9667]])
    b = np.array([0.0, 0.01209, 0.03119])
    proof = prove_triple(p, r, W[None], b[None], levels=7)
    lower, by_class = proof.levels[-1].lower, proof.levels[-1].class_lower
    # Couplings of 1e-4 are divided by, which makes the enclosure wide: 1e-16 over their square.
    assert proof.upper == pytest.approx(loss(W, b, p, r), rel=1e-5)
    assert lower == by_class.min() and proof.possible == list(TripleClass)
    assert lower > 0.25 * proof.upper and by_class[TripleClass.ignored] > 0.75 * proof.upper
    seen = set()
    for size in (0.02, 0.2, 1.0):
        for _ in range(20):
            other, at = W + size * rng.normal(size=(2, 3)), b + size * rng.normal(size=3)
            held = triple_classes(*[gram(other)[None]] * 2)[0]
            assert loss(other, at, p, r) >= by_class[held].min()
            seen.add(int(held.argmax()))
    assert len(seen) == 3
    assert audit(p, proof.sample) == (4 * len(proof.levels), 0)
    # Without a candidate the best that is known ignores the last feature.
    odd = np.array([[np.nan] * 3, [np.inf] * 3])
    alone = prove_triple(p, r, np.stack([W, W]), odd, levels=1)
    assert alone.upper == pytest.approx(r * (p / 3 - p**2 / 4), rel=1e-12)
    short = prove_triple(p, r, W[None], b[None], levels=7, max_boxes=20_000)
    assert [x.n_boxes for x in short.levels] == [x.n_boxes for x in proof.levels[:2]]
