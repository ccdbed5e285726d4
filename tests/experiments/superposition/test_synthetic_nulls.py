"""Nulls of toy models on small made-up records: they tell an effect from what needs none."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import xarray as xr

from circuitax.config.catalogue import discover
from circuitax.records.claims import FAILS, HOLDS, UNDECIDED, WOULD_HOLD, settle
from circuitax.records.record import Record
from experiments.superposition.toy_correlated import measures as toy_correlated
from experiments.superposition.toy_correlated.claims import COLLAPSED
from experiments.superposition.toy_demonstrate import measures as toy_demonstrate
from experiments.superposition.toy_geometry import measures as toy_geometry
from experiments.superposition.toy_geometry.claims import NOTEBOOK_STAR
from experiments.superposition.toy_memorization.claims import BEST_CONSTANT
from experiments.superposition.toy_privileged import measures as toy_privileged

ENTRIES = discover()
# Three pairs as a hexagon, members of a pair side by side; and pairs that are collapsed.
HEXAGON = np.radians([0, 60, 120, 180, 240, 300])
ONE_WAY = np.radians([0, 0, 120, 120, 240, 240])
# Ten features, each a pair of five neurons.
PAIRS = np.array([[float(k in pair) for pair in combinations(range(5), 2)] for k in range(5)])


def verdicts(name: str, data: xr.Dataset, **notes: Any) -> dict[str, str]:
    entry, record = ENTRIES[name], Record(data, notes)
    found = settle(entry.load_claims(), *entry.load_measure()(record), entry.load_nulls()(record))
    return {row.claim.id: row.verdict for row in found}


def polar(angles: np.ndarray) -> np.ndarray:
    """Unit vectors of two dimensions, ``[2, n]``."""
    return np.stack([np.cos(angles), np.sin(angles)])


def of_pairs_alone() -> dict[str, Any]:
    """The best network of one density, whose features are pairs of neurons."""
    W = (("density", "neuron", "feature"), PAIRS[None].copy())
    return {"best_W": W, "best_b": (("density", "feature"), np.zeros((1, 10)))}


@pytest.mark.parametrize(("init_std", "verdict"), [(1e-3, HOLDS), (30.0, WOULD_HOLD)])
def test_counts_of_privileged_neurons_are_held_against_networks_at_their_start(
    init_std: float, verdict: str
) -> None:
    # Weights of spread 30 represent all ten features before any training, and those of 0.001 none.
    cells, n = ("restart", "density"), 100
    loss = np.random.default_rng(0).uniform(1, 2, (n, 1))
    counts = {"monosemantic": 0, "represented": 10, "polysemantic": 5, "paired": 1.0}
    arrays = {name: (cells, np.full((n, 1), float(x))) for name, x in counts.items()}
    data = xr.Dataset({"loss": (cells, loss), **arrays, **of_pairs_alone()}, {"density": [0.03]})
    found = verdicts("toy_privileged", data, init_std=init_std, represented=0.5)
    assert found["privileged-features-p0.03"] == verdict
    assert found["privileged-pairs"] == HOLDS
    for count, by in (("represented", -1), ("monosemantic", 1), ("polysemantic", -1)):
        other = verdicts("toy_privileged", data.assign({count: data[count] + by}), **NOTES)
        assert other["privileged-features-p0.03"] == FAILS


def test_a_restart_that_other_inputs_may_rank_first_leaves_pairs_undecided() -> None:
    cells, loss = ("restart", "density"), np.linspace(1, 2, 100)[:, None]
    names = ("monosemantic", "represented", "polysemantic", "paired")
    arrays = {name: (cells, np.ones((100, 1))) for name in names}
    data = xr.Dataset({"loss": (cells, loss), **arrays, **of_pairs_alone()}, {"density": [0.03]})
    found = []
    for behind in (4, 20):  # in percent, nearly
        data["paired"] = xr.where(data.restart == behind, 0.5, 1.0) * xr.ones_like(data.loss)
        found.append(verdicts("toy_privileged", data, **NOTES)["privileged-pairs"])
    assert found == [UNDECIDED, HOLDS]
    # Two neurons for every feature are not enough where two features have the same two.
    data["best_W"][0, :, :2] = data.best_W[0, :, 2:4]
    assert verdicts("toy_privileged", data, **NOTES)["privileged-pairs"] == UNDECIDED


def test_pairs_of_neurons_count_once_and_only_where_two_weights_stand_out() -> None:
    same, small, third = PAIRS.copy(), PAIRS.copy(), PAIRS.copy()
    same[:, 1] = 2 * same[:, 0]
    small[1, 0], third[2, 0] = 0.4, 0.3
    found = [toy_privileged.different_pairs(W) for W in (PAIRS, same, small, third, 0 * PAIRS)]
    assert found == [1, 0.9, 0.9, 0.9, 0]


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ([[1, 1, -1], [1, -1, 1]], HOLDS),
        ([[1, 1, -1], [-1, 1, 1]], FAILS),  # the most important is not positive in both
        ([[1, 1, 1], [1, -1, 1]], FAILS),  # two features alike
        ([[1, -1, -1], [1, -1, 1]], FAILS),  # a feature that no ReLU lets through
        ([[1, 1, -0.3], [1, -1, 1]], FAILS),
        ([[1, 1, 0.1], [1, -1, 0.1]], FAILS),  # only two features are represented
    ],
)
def test_three_features_are_a_code_of_two_neurons(code: list[list[float]], verdict: str) -> None:
    W = np.zeros((5, 10))
    W[0, 9], W[2, 0], W[4, 4] = 1, 1, 1
    W[1::2, 5:8] = code
    pure = np.array([True, False, True, False, True])
    cells, n = ("restart", "density"), 20
    names = ("monosemantic", "represented", "polysemantic", "paired")
    data = xr.Dataset(
        {name: (cells, np.ones((n, 1))) for name in names}
        | {
            "loss": (cells, np.linspace(1, 2, n)[:, None]),
            "best_W": (("density", "neuron", "feature"), W[None]),
            "best_b": (("density", "feature"), np.zeros((1, 10))),
            "best_monosemantic": (("density", "neuron"), pure[None]),
            "best_polysemantic": (("density", "neuron"), ~pure[None]),
            "best_represented": (("density", "feature"), np.linalg.norm(W, axis=0)[None] > 0.5),
        },
        {"density": [0.35]},
    )
    assert verdicts("toy_privileged", data, **NOTES)["privileged-code"] == verdict
    draws = toy_privileged.nulls(Record(data, NOTES))["random"]["privileged-code"]
    n = toy_privileged.N_CODES
    assert len(draws) == 2 * n and np.mean(draws[:n]) < 0.02 and np.mean(draws[n:]) < 0.05


NOTES: dict[str, Any] = {"init_std": 1e-3, "represented": 0.5}


def of_pairs(W: np.ndarray, trained: np.ndarray) -> xr.Dataset:
    """Eight seeds in which pairs have given directions, and trained ones of three pairs."""
    densities = sorted({0.03, *COLLAPSED})
    optimum = np.stack([polar(ONE_WAY if p > 0.03 else HEXAGON) for p in densities])
    basis = np.tile(np.eye(10), (8, 1, 1, 2))
    loss = np.linspace(1, 2, 8)[:, None]
    four = ("seed", "pair_density", "hidden", "correlated_feature")
    six = ("crowded_density", "hidden", "crowded_feature")
    apart = np.tile(W, (8, 1, 1, 1))
    opposite = np.tile(polar(np.radians([0, 180, 90, 270])), (8, 1, 1, 1))
    return xr.Dataset(
        {
            "correlated_W": (four, apart),
            "anticorrelated_W": ((*four[:3], "anticorrelated_feature"), opposite),
            "correlated_loss": (four[:2], loss),
            "anticorrelated_loss": (four[:2], loss),
            "basis_W": (("seed", "basis_density", "basis_hidden", "basis_feature"), basis),
            "crowded_optimum_W": (six, optimum),
            "crowded_W": (("seed", *six), np.where(trained, optimum, np.roll(optimum, 1, axis=-1))),
            "crowded_loss": (("seed", "crowded_density"), np.tile(loss, len(densities))),
        },
        {"crowded_density": densities},
    )


def test_pairs_are_held_against_random_directions_and_random_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(toy_correlated, "N_ALONE", 60)
    monkeypatch.setattr(toy_correlated, "N_DRAWS", 10)
    monkeypatch.setattr(toy_correlated, "N_PARTNERS", 10)
    members = {"members": {"correlated": {"diverged": 0}}}
    angles = np.radians([0, 90, 45, 135])
    best = np.arange(8)[:, None, None, None] == 0
    alone = verdicts("toy_correlated", of_pairs(polar(angles), best), **members)
    every = verdicts("toy_correlated", of_pairs(polar(0 * angles), best | True), **members)
    # Both members of a pair in one direction are not at right angles.
    assert (alone["T8-correlated"], every["T8-correlated"]) == (HOLDS, FAILS)
    assert (alone["T8-anticorrelated"], alone["correlated-hexagon"]) == (HOLDS, HOLDS)
    # Where every seed finds the optimum, to choose the best gains nothing.
    assert alone["correlated-trained-collapsed"] != every["correlated-trained-collapsed"]
    assert every["correlated-trained-collapsed"] == WOULD_HOLD


def test_features_without_a_direction_are_seen_in_the_worse_basis() -> None:
    data = of_pairs(polar(np.zeros(4)), np.ones((8, 1, 1, 1), bool))
    W = np.zeros(data.basis_W.shape)
    W[..., :10], W[..., 10:] = np.eye(10), np.eye(10)
    whole = data.basis_W.copy(data=W.copy())
    W[..., 3] = 0  # one of ten: sqrt(1 / 10) of the norm of the identity
    found = toy_correlated._basis(data.assign(basis_W=data.basis_W.copy(data=W)))
    assert found["correlated-local-bases"].value == pytest.approx(10**-0.5)
    *worlds, shuffled = toy_correlated._without_bases(data.assign(basis_W=whole))
    for one, (dropped, of) in zip(worlds, [(1, 8), (1, 4), (2, 8), (10, 8)], strict=True):
        gone = (np.linalg.norm(one.basis_W.values, axis=-2) == 0).sum(axis=(-1, -2))
        assert gone.tolist() == [dropped] * of + [0] * (8 - of)
    assert shuffled.basis_W.shape == data.basis_W.shape


def test_features_without_a_length_have_no_angle_that_counts() -> None:
    data = of_pairs(polar(np.radians([0, 90, 180, 270])), np.ones((8, 1, 1, 1), bool))
    data.correlated_W[0, ..., 0] *= 0.4
    data.crowded_W[:3, 0, :, 5] *= 0.4
    found = toy_correlated._seeds(data) | toy_correlated._neighbours(data)
    assert found["T8-correlated-seeds"].value == pytest.approx(7 / 8)
    assert (found["correlated-adjacent"].value, found["correlated-adjacent"].n) == (1, 5)
    collapse = toy_correlated._three_pairs(data)
    assert collapse["correlated-collapsed-p0.4"].value == 1
    data.crowded_W.loc[{"crowded_density": 0.4}][:3, :, 5] *= 0.4
    lost = toy_correlated._three_pairs(data)
    assert lost["correlated-collapsed-p0.4"].value == pytest.approx(5 / 8)
    assert lost["correlated-collapse-rises"] == collapse["correlated-collapse-rises"]


def test_a_hexagon_has_even_norms() -> None:
    data = of_pairs(polar(np.zeros(4)), np.ones((8, 1, 1, 1), bool))
    worlds = [toy_correlated._hexagon(one).value for one in toy_correlated._without_hexagon(data)]
    found = [toy_correlated._hexagon(data).value]
    for shrunk in (0.95, 0.9):  # twice: to 0.95 of the others, and to 0.86
        data.crowded_W[:, 0, :, 5] *= shrunk
        found.append(toy_correlated._hexagon(data).value)
    assert found == pytest.approx([0, 0, 180]) and worlds == [180] * 9


def test_as_many_collapsed_pairs_as_printed_are_held_against_other_densities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("N_ALONE", "N_DRAWS", "N_PARTNERS"):
        monkeypatch.setattr(toy_correlated, name, 1)
    members = {"members": {"correlated": {"diverged": 0}}}
    data = of_pairs(polar(np.zeros(4)), np.ones((8, 1, 1, 1), bool))
    three, everywhere = data.copy(deep=True), data.copy(deep=True)
    three.crowded_W.loc[{"crowded_density": [0.1, 0.17]}] = polar(HEXAGON)
    everywhere.crowded_W[:] = polar(HEXAGON)
    names = ("correlated-collapsed-p0.4", "correlated-hexagon")
    found = []
    for one in (three, data, everywhere):
        verdict = verdicts("toy_correlated", one, **members)
        found.append(tuple(verdict[name] for name in names))
    assert found == [(HOLDS, WOULD_HOLD), (WOULD_HOLD, HOLDS), (FAILS, WOULD_HOLD)]


def test_pairs_that_collapse_alike_at_all_densities_do_not_rise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("N_ALONE", "N_DRAWS", "N_PARTNERS"):
        monkeypatch.setattr(toy_correlated, name, 1)
    data = of_pairs(polar(np.zeros(4)), np.ones((8, 1, 1, 1), bool))
    members = {"members": {"correlated": {"diverged": 0}}}
    alike = data.assign(crowded_W=xr.ones_like(data.crowded_W))
    found = [verdicts("toy_correlated", one, **members) for one in (data, alike)]
    assert [one["correlated-collapse-rises"] for one in found] == [HOLDS, FAILS]


def test_partners_at_random_are_told_by_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy_correlated, "N_ALONE", 1)
    monkeypatch.setattr(toy_correlated, "N_DRAWS", 1)
    monkeypatch.setattr(toy_correlated, "N_PARTNERS", 300)
    data = of_pairs(polar(np.radians([0, 90, 180, 270])), np.ones((8, 1, 1, 1), bool))
    draws = toy_correlated.nulls(Record(data, {"members": {"correlated": {"diverged": 0}}}))
    # Of three pairings of a cross two are at right angles; of fifteen of a hexagon two go around.
    for name, share in (
        ("T8-correlated-seeds", 2 / 3),
        ("T8-anticorrelated-seeds", 1 / 3),
        ("correlated-adjacent", 2 / 15),
    ):
        drawn = np.mean([draw.value for draw in draws["permuted"][name]])
        assert drawn == pytest.approx(share, abs=0.04)


def of_halves(m: int, n: int) -> xr.Dataset:
    """Eight seeds of ``n`` features as digons of 2 m, the others without a direction."""
    x = np.array(sorted({*NOTEBOOK_STAR, 20.0}))
    cells = ("seed", "inverse_density")
    d = np.where(np.arange(n) < 2 * m, 0.5, 0.0) + np.zeros((8, len(x), n))
    factors = ["dedicated", "digon", "pentagon"]
    return xr.Dataset(
        {
            "dimensionality": ((*cells, "feature"), d),
            "polytope": ((*cells, "feature"), np.where(d > 0, 0, -1)),
            "dimensions_per_feature": (cells, np.full(d.shape[:2], 0.5)),
            "alive": (cells, np.ones(d.shape[:2], bool)),
            "theory_gain": (("factor", "theory_x"), np.ones((3, 4))),
            "theory_inverse_density": ("theory_x", [1.0, 2.0, 3.0, 4.0]),
        },
        {
            "inverse_density": x,
            "name": ["digon", "triangle", "tetrahedron", "pentagon", "square antiprism"],
            "factor": factors,
        },
    )


def test_halves_of_a_dimension_are_held_against_random_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(toy_geometry, "N_DRAWS", 5)
    m, found = 40, []
    notes = {"n_hidden": m, "init_std": 1.0}
    notes["tolerances"] = {"represented": 0.5, "edge": 0.3, "spread": 0.05}
    # Of random weights D_i is a little over m / (m + n + 1): a sixth, or a half.
    for n in (200, m + 2):
        found.append(verdicts("toy_geometry", of_halves(m, n), **notes)["T6-half-mean"])
    assert found == [HOLDS, WOULD_HOLD]


def test_halves_of_a_dimension_on_the_plateau_are_held_against_other_densities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(toy_geometry, "N_DRAWS", 1)
    notes = {"n_hidden": 4, "init_std": 1.0}
    notes["tolerances"] = {"represented": 0.5, "edge": 0.3, "spread": 0.05}
    everywhere = of_halves(4, 20)
    on_plateau = (everywhere.inverse_density > 2.1) & (everywhere.inverse_density < 3.6)
    only = everywhere.assign(dimensionality=everywhere.dimensionality.where(on_plateau, 0.3))
    # An eighth of the features elsewhere is too many, though their median is at 1/2.
    some = only.assign(dimensionality=only.dimensionality.where(only.feature > 0, 0.1))
    found = [verdicts("toy_geometry", one, **notes)["T6-half"] for one in (only, everywhere, some)]
    assert found == [HOLDS, WOULD_HOLD, FAILS]


def test_lines_are_as_wide_as_half_of_the_way_between_the_two_nearest() -> None:
    data = of_halves(4, 8)
    data["polytope"] = data.polytope.where(data.feature < 4, 2)
    found = []
    # The four features of a tetrahedron on the line, and one or two others there.
    for off, members in ((0.012, 4), (0.013, 4), (0.012, 5), (0.012, 6)):
        d = xr.full_like(data.dimensionality, 0.75 - off).where(data.feature >= 8 - members, 0.5)
        record = Record(data.assign(dimensionality=d), {"n_hidden": 4})
        found.append(toy_geometry.measure(record).estimates["geometry-tetrahedron"].value)
    assert found == [1, 0, 1, 0]


def test_features_anywhere_in_the_window_of_a_label_are_on_its_line_by_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(toy_geometry, "N_DRAWS", 1)
    notes = {"n_hidden": 4, "init_std": 1.0}
    notes["tolerances"] = {"represented": 0.5, "edge": 0.3, "spread": 0.05}
    data = of_halves(4, 20)
    for fewest, share in ((19, 1 / 4), (18, 1 / 16)):  # of one feature, and of both of two
        here = (data.feature >= fewest) & (data.inverse_density == 4.13)
        record = Record(data.assign(polytope=data.polytope.where(~here, 1)), notes)
        nulls = toy_geometry.nulls(record)["random"]
        drawn = [draw.value for draw in nulls["geometry-triangle"]]
        assert np.mean(drawn[:1000]) == pytest.approx(share, abs=0.02)
        # Labels that are shuffled fall on features that are at 1/2.
        assert drawn[1000:] == [0] * 1000
        assert nulls["geometry-pentagon"] == [None]


def of_samples(few: float, many: float) -> xr.Dataset:
    """Eight sets with a test loss for few points and for the most; hidden vectors as polygons."""
    points = np.array([3, 5, 8, 20, 50, 100])
    noise = 0.01 * np.random.default_rng(0).normal(size=(1, 8, 6))
    loss = np.where(points < 100, few, many) + noise
    cells = ("decay", "dataset", "points")
    vectors = np.zeros((6, 8, 2, 100))
    for i, n in enumerate(points):
        vectors[i, ..., :n] = polar(2 * np.pi * np.arange(n) / n)
    W = np.zeros((6, 8, 2, 20))
    W[..., :5] = polar(2 * np.pi * np.arange(5) / 5)
    half = np.full((1, 8, 6), 0.2)
    return xr.Dataset(
        {
            "theory_loss": (("size", "scale"), [[1e-9, 1e-3]]),
            "test_loss": (cells, loss),
            "W_norm": (cells, 2 + noise),
            "b_norm": (cells, 2 + noise),
            "sample_dimension": (cells, half),
            "feature_dimension": ((*cells, "feature"), half[..., None] + np.zeros(20)),
            "least_norm": ("points", np.ones(6)),
            "hidden_vectors": (("points", "dataset", "hidden", "sample"), vectors),
            "W": (("points", "dataset", "hidden", "feature"), W),
        },
        {"points": points, "scale": [1.0, 0.99]},
    )


def test_generalisation_is_held_against_losses_at_other_sizes() -> None:
    notes = {"density": 0.05, "init_std": 0.1}
    only_many = verdicts("toy_memorization", of_samples(2.0, 0.5), **notes)
    at_every_size = verdicts("toy_memorization", of_samples(0.6, 0.5), **notes)
    nowhere = verdicts("toy_memorization", of_samples(2.0, 1.5), **notes)
    by_bias = verdicts("toy_memorization", of_samples(2.0, 0.975), **notes)
    every = (only_many, at_every_size, nowhere, by_bias)
    found = [one["memorization-generalises"] for one in every]
    assert found == [HOLDS, WOULD_HOLD, FAILS, FAILS]
    # Random directions are no polygon, nor are weights at their start a pentagon.
    assert only_many["memorization-tgon-8"] == only_many["memorization-pentagon"] == HOLDS


def test_a_polygon_has_equal_lengths() -> None:
    data, found = of_samples(2.0, 0.5), []
    # The gaps stay; a feature of 0.6 is represented still.
    names = ["memorization-tgon-5", "memorization-tgon-8", "memorization-pentagon"]
    for sample, feature in ((0.8, 0.8), (0.1, 0.8), (0.8, 0.6)):
        one = data.copy(deep=True)
        one.hidden_vectors[..., 0] *= sample
        one.W[..., 0] *= feature
        verdict = verdicts("toy_memorization", one, density=0.05, init_std=0.1)
        found.append([verdict[name] for name in names])
    assert found == [[HOLDS] * 3, [FAILS, FAILS, HOLDS], [HOLDS, HOLDS, FAILS]]


def test_the_best_constant_output_is_the_mean_sample() -> None:
    rng, shape = np.random.default_rng(0), (100_000, 100)
    x = rng.random(shape) * (rng.random(shape) < 0.05)
    empty = ~x.any(axis=1)
    x[empty] = np.eye(100)[rng.integers(100, size=empty.sum())]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    mean = np.full(100, x.mean())  # all features are alike
    loss = ((x - mean) ** 2).sum(axis=1).mean()
    assert loss == pytest.approx(BEST_CONSTANT, abs=2e-4)


def test_five_features_that_share_with_ten_alone_have_two_fifths_each() -> None:
    data = of_samples(2.0, 0.5)
    data.W[..., 5:] = 0.1 * np.random.default_rng(0).normal(size=data.W[..., 5:].shape)
    data.W[:, 0, :, 5] = data.W[:, 0, :, 4]  # a sixth feature in the first set, which is left out
    W = data.W.values[-1].copy()
    for one in W[1:]:
        order = np.argsort(np.linalg.norm(one, axis=0))
        one[:, order[-15:-5]] = 0  # the ten behind the pentagon
    gram = np.einsum("ski,skj->sij", W, W)
    fourth = np.einsum("sii->si", gram) ** 2
    D = fourth / np.maximum((gram**2).sum(axis=-1), 1e-30)
    cells = ("decay", "dataset", "points", "feature")
    changed = data.assign(feature_dimension=(cells, D[None, :, None] + np.zeros((1, 1, 6, 1))))
    record = Record(changed, {"density": 0.05, "init_std": 0.1})
    entry = ENTRIES["toy_memorization"]
    name = "memorization-feature-dimension"
    (alone,) = entry.load_nulls()(record)["false world"][name]
    assert alone.value == pytest.approx(2 / 5)
    found = entry.load_measure()(record).estimates[name]
    assert found.value == pytest.approx(D[1:, :5].mean()) and found.high < 0.4
    assert found.n == len(W) - 1


def test_five_features_share_their_dimensions_with_more_than_ten() -> None:
    data, found = of_samples(2.0, 0.5), []
    for n_others in (15, 10):
        one = data.copy(deep=True)
        one.W[..., 5 : 5 + n_others] = 0.3 * polar(np.arange(n_others))
        verdict = verdicts("toy_memorization", one, density=0.05, init_std=0.1)
        found.append(verdict["memorization-feature-dimension"])
    assert found == [HOLDS, FAILS]


def test_five_features_have_dimensions_with_many_samples_and_not_with_few() -> None:
    data, found = of_samples(2.0, 0.5), []
    square = xr.zeros_like(data.W)
    square[..., :4] = polar(np.pi / 2 * np.arange(4))
    of_few = data.assign(W=data.W.where(data.points >= 100, square))
    # A square has no five-fold order: the last world has the dimensions and not the directions.
    worlds = ((of_few, 5, 100), (of_few, 4, 100), (of_few, 6, 100), (of_few, 5, 3))
    for world, n_features, fewest in (*worlds, (data.assign(W=square), 5, 100)):
        share = np.where(np.arange(20) < n_features, 0.3, 0.05)
        many = (world.points >= fewest) & xr.ones_like(world.test_loss, bool)
        D = many * xr.DataArray(share, dims="feature") + 0.05 * ~many
        record = Record(world.assign(feature_dimension=D), {"density": 0.05})
        one = ENTRIES["toy_memorization"].load_measure()(record).estimates
        found.append(one["memorization-no-features"].value)
    # Weighted by itself the mean dimension is 0.217 with five of 0.3, and 0.05 with few samples.
    assert found == pytest.approx([0.4875 / 2.25 - 0.05, 0, 0, 0, 0])


def test_five_features_are_held_against_more_of_them() -> None:
    entry, record = ENTRIES["toy_memorization"], Record(of_samples(2.0, 0.5), {"density": 0.05})
    notes = {**record.notes, "init_std": 0.1}
    draws = entry.load_nulls()(Record(record.data, notes))["false world"][
        "memorization-no-features"
    ]
    assert len(draws) > 9 and max(draw.value for draw in draws[:9]) < 1e-9


def test_samples_that_share_unevenly_are_no_polygon() -> None:
    data, notes = of_samples(2.0, 0.5), {"density": 0.05, "init_std": 0.1}
    name = "memorization-sample-dimension"
    assert verdicts("toy_memorization", data, **notes)[name] == HOLDS
    # Two samples that hold a dimension each, and the others none, have the mean of a polygon.
    data.hidden_vectors[:] = np.eye(2, data.sizes["sample"])
    assert verdicts("toy_memorization", data, **notes)[name] == FAILS
    found = ENTRIES["toy_memorization"].load_measure()(Record(data, notes)).estimates[name]
    assert found.value == pytest.approx((1.2 + 1.5) / 2)


def test_norms_of_weights_and_of_biases_peak() -> None:
    data, notes = of_samples(2.0, 0.5), {"density": 0.05, "init_std": 0.1}
    inner = data.points == 20
    both = data.assign({name: data[name] * (1 + 2 * inner) for name in ("W_norm", "b_norm")})
    found = [
        verdicts("toy_memorization", one, **notes)
        for one in (both, both.assign(b_norm=data.b_norm))
    ]
    assert [one["memorization-norm-peak"] for one in found] == [HOLDS, FAILS]


def test_peaks_lie_between_the_regimes() -> None:
    data, found = of_samples(2.0, 0.5).isel(decay=[0, 0]), []
    data = data.assign_coords(points=[3, 5, 8, 20, 150, 450], decay=[0.01, 1.0])
    names = ["memorization-bump", "memorization-norm-peak"]
    for place in (20, 5, 150):
        peak = 1 + 2 * ((data.points == place) & (data.decay < 1))
        one = data.assign({name: data[name] * peak for name in ("test_loss", "W_norm", "b_norm")})
        verdict = verdicts("toy_memorization", one, density=0.05, init_std=0.1)
        found.append([verdict[name] for name in names])
    assert found == [[HOLDS, HOLDS], [FAILS, FAILS], [FAILS, FAILS]]


def test_generalisation_begins_where_a_quarter_of_the_gain_is_kept() -> None:
    data, found = of_samples(2.0, 0.5).isel(decay=[0, 0]), []
    weak = [1.2, 0.6, 1.3, 1.05, 0.65, 0.4]  # good at T = 5 by chance, and not from there on
    low = [0.99, 0.99, 0.98, 0.97, 0.96, 0.9]  # below 1 everywhere: strong decay puts out little
    never = [1.2, 1.2, 1.2, 1.2, 1.2, 1.1]
    for strong in (low, weak, never):
        both = np.broadcast_to(np.array([weak, strong])[:, None], data.test_loss.shape)
        loss = data.test_loss.copy(data=both)
        record = Record(data.assign(test_loss=loss), {"density": 0.05})
        one = ENTRIES["toy_memorization"].load_measure()(record).estimates
        between = np.sqrt(20 * 50)  # halfway from 1.05 to 0.65
        assert one["memorization-onset"].value == pytest.approx(between * 0.05)
        found.append(one["memorization-onset-decay"].value)
    assert found == pytest.approx([np.sqrt(8 * 20) / between, 1, 200 / between])


def test_an_onset_within_a_factor_of_two_is_held_against_any_after_the_bump() -> None:
    data, notes = of_samples(2.0, 0.5), {"density": 0.3, "init_std": 0.1}
    early, late = ([1.2, 1.3, 1.1, 1.05, 0.65, 0.4], [1.2, 1.2, 1.2, 1.2, 1.3, 0.4])
    found = []
    for curve in (early, late):
        loss = data.test_loss.copy(data=np.broadcast_to(curve, data.test_loss.shape))
        record = Record(data.assign(test_loss=loss), notes)
        found.append(
            ENTRIES["toy_memorization"].load_nulls()(record)["random"]["memorization-onset"]
        )
    for draws, bump in zip(found, (5, 50), strict=True):
        assert 0.3 * bump <= min(draws) and max(draws) <= 0.3 * 100


def test_a_decay_that_leaves_a_fifth_of_a_bump_does_not_remove_it() -> None:
    data, found = of_samples(2.0, 0.5).isel(decay=[0, 0]).assign_coords(decay=[0.01, 1.0]), []
    noise = np.random.default_rng(1).normal(size=(8, 1)) / 100
    weak = np.array([0.9, 1.0, 1.2, 1.3, 1.1, 0.6]) + noise
    for left in (0.01, 0.2):
        strong = np.where(weak > 1, 1 + left * (weak - 1), weak)
        both = data.test_loss.copy(data=np.stack([weak, strong]))
        notes = {"density": 0.05, "init_std": 0.1}
        one = verdicts("toy_memorization", data.assign(test_loss=both), **notes)
        found.append(one["memorization-decay"])
    assert found == [HOLDS, FAILS]


def of_subcomponents(cosine: float, start: float, alone: float) -> xr.Dataset:
    """Sixteen seeds whose subcomponents have this cosine with features, and before training."""
    each, places = ("target", "seed"), ("target", "place", "seed")
    targets = ["small", "large"]

    def full(value: float) -> tuple[tuple[str, ...], np.ndarray]:
        return each, np.full((2, 16), value)

    arrays = {"cosine": cosine, "start_cosine": start, "one_to_one": alone, "masked": 0.0}
    arrays |= dict.fromkeys(("norm_ratio", "start_norm_ratio", "rank_one", "start_rank_one"), 1.0)
    alive = np.full((2, 2, 16), 5.0)
    return xr.Dataset(
        {name: full(value) for name, value in arrays.items()}
        | {"faithfulness": full(0.0), "alive": (places, alive)},
        {"target": targets, "place": ["encoder", "identity"]},
    )


def test_subcomponents_are_held_against_those_before_training() -> None:
    few, many = {"small": [5, 2, 20], "large": [40, 10, 200]}, {"small": [5, 2, 10**7]}
    trained, same = (of_subcomponents(1.0, start, 1.0) for start in (0.75, 1.0))
    found = verdicts("toy_decomposition", trained, sizes=few)
    assert (found["spd-small"], found["spd-one-to-one-small"]) == (HOLDS, HOLDS)
    assert verdicts("toy_decomposition", same, sizes=few)["spd-small"] == WOULD_HOLD
    # Of ten million subcomponents five features chose five by chance too.
    by_chance = verdicts("toy_decomposition", trained, sizes=few | many)
    assert by_chance["spd-one-to-one-small"] == WOULD_HOLD
    shared = verdicts("toy_decomposition", of_subcomponents(1.0, 0.75, 0.6), sizes=few)
    assert shared["spd-one-to-one-small"] == FAILS


def of_densities(sparse: np.ndarray) -> xr.Dataset:
    """Eight seeds of ReLU and linear networks that keep five features where they are dense."""
    p = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001]
    dense = np.eye(5, 20)
    linear = np.tile(dense, (8, 7, 1, 1))
    relu = np.tile(sparse, (8, 7, 1, 1))
    relu[:, 0] = dense
    cells, norms = ("seed", "density"), np.linalg.norm(relu, axis=-2)
    large = np.concatenate([np.ones((8, 7, 20)), np.zeros((8, 7, 60))], axis=-1)
    book = np.concatenate([np.ones((8, 2, 20)), np.zeros((8, 2, 80))], axis=-1)
    bias = np.where(np.arange(20) < 5, 0, 0.5) * np.array(p)[:, None] + np.zeros((8, 7, 20))
    alive = {f"{name}_alive": True for name in ("relu", "linear", "scaled", "notebook")}
    return xr.Dataset(
        {
            "relu_W": ((*cells, "hidden", "feature"), relu),
            "linear_W": ((*cells, "hidden", "feature"), linear),
            "relu_b": ((*cells, "feature"), -bias),
            "linear_b": ((*cells, "feature"), bias),
            "relu_interference": ((*cells, "feature"), 0 * norms),
            "relu_loss": (cells, np.linspace(1, 2, 8)[:, None] + np.zeros(7)),
            "relu_best": ("density", np.zeros(7, int)),
            "optimum_loss": ("density", np.ones(7)),
            "optimum_W": (("density", "hidden", "feature"), relu[0]),
            "scaled_norm": ((*cells, "scaled_feature"), large),
            "scaled_hidden_axis": ("scaled_hidden", np.zeros(20)),
            "notebook_norm": (("seed", "notebook_density", "notebook_feature"), book),
            "notebook_hidden_axis": ("notebook_hidden", np.zeros(20)),
            **alive,
        },
        {"density": p, "notebook_density": [1.0, 0.53]},
    )


def test_the_dense_relu_model_is_held_against_sparser_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(toy_demonstrate, "N_DRAWS", 20)
    notes = {"init_std": {"small": 0.3, "notebook": 0.3}}
    digons = np.concatenate([np.eye(5), -np.eye(5), np.zeros((5, 10))], axis=1)
    for sparse, verdict in ((digons, HOLDS), (np.eye(5, 20), WOULD_HOLD)):
        found = verdicts("toy_demonstrate", of_densities(sparse), **notes)
        assert found["T7-dense-relu"] == verdict
        assert found["T7-gram"] == HOLDS
