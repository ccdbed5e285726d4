"""Learning dynamics: refused, read from made-up trajectories, and drawn."""

from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import minimize

from circuitax.records.record import Record
from experiments.superposition.toy_dynamics import experiment, figure, kinks, measures, sets

OCTAHEDRON = np.concatenate([np.eye(3), -np.eye(3)[:, [1, 2, 0]]], axis=1)
DIMS = ("hidden", "set_feature")
DIMENSIONS = ("set_step", "seed", *DIMS)
ONE_EACH = np.array([[1.0, 0.9, 1.1, 0.0, 0.0, 0.1], [0.0, 0.1, 0.0, 1.0, 0.8, 1.0], [0.0] * 6])


def made_up() -> Record:
    """Two seeds that go from one direction each to the octahedron; two features that jump."""
    steps = 60 * np.arange(101)
    share = np.clip((steps - 1800) / 1200, 0, 1)[:, None, None]
    W = (1 - share) * ONE_EACH + share * OCTAHEDRON
    fall = np.exp(-np.where(steps < 600, steps / 300, 2) - 3 * share[:, 0, 0])
    jumps = np.array([[1200, 4200], [2400, 3000]])
    d = np.where(steps[:, None, None] < jumps, 0.0, 0.5)
    loss = 0.1 * np.exp(-d.sum(axis=-1) - steps[:, None] / 1e5)  # at last a little below a digon's
    arrays: dict[str, Any] = {
        "dimensionality": (("step", "seed", "feature"), d),
        "loss": (("step", "seed"), loss),
        "alive": ("seed", [True, True]),
        "set_W": (DIMENSIONS, np.stack([W, 2 * W], 1)),
        "set_loss": (("set_step", "seed"), np.stack([fall, 3 * fall], 1)),
        "set_alive": ("seed", [True, True]),
    }
    coords = {"step": steps, "set_step": steps, "seed": [0, 1]}
    return Record(xr.Dataset(arrays, coords), {"n_hidden": 1, "density": 1 / 3})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"every": 7}, "every=7 must divide optim.steps="),
        ({"set_every": 7}, "set_every=7 must divide set_steps="),
        ({"set_density": 0.0}, "set_density"),
        ({"set_std": 0.0}, "set_std"),
        ({"log2_points": 17}, "log2_points=17"),
    ],
)
def test_bad_specs_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        experiment.Spec(**fields)


def test_an_octahedron_needs_antipodes_across_sets() -> None:
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0] @ OCTAHEDRON
    assert sets.is_octahedron(turned)
    inside = np.concatenate([np.eye(3)[:, [0, 0, 1]], np.eye(3)[:, [1, 2, 2]]], axis=1)
    apart = OCTAHEDRON[:, [0, 1, 3, 2, 4, 5]]  # antipodes in a set
    assert sets.in_antipodal_pairs(apart) and not sets.is_octahedron(apart)
    assert not sets.is_octahedron(inside * np.array([1, -1, 1, -1, 1, -1]))
    assert not sets.is_octahedron(ONE_EACH)
    assert sets.inside(OCTAHEDRON) == pytest.approx(0)
    assert sets.farthest(OCTAHEDRON) == pytest.approx(-1)


def test_antipodes_are_counted_in_octahedra_alone() -> None:
    data = made_up().data
    W = xr.concat([data.set_W] * 2, "seed")
    W[-1, 0] = OCTAHEDRON[:, [0, 1, 3, 2, 4, 5]]
    W[-1, 1] = ONE_EACH
    found = measures._across(xr.Dataset({"set_W": W}))["dynamics-across"]
    assert (found.value, found.n) == (pytest.approx(2 / 3), 3)
    assert measures._across(xr.Dataset({"set_W": W[:1]})) == {}


def test_regimes_are_read_in_order() -> None:
    data = made_up().data
    when = measures.regimes(data)
    assert when.separated.tolist() == [0, 0]
    assert (when.opened > 1800).all() and (when.opened < when.octahedron).all()
    assert (when.octahedron < 3060).all()
    begins = measures.onset(data)
    assert [measures.falls(np.array(row)) for row in ([9, 1, 3, 2, 5, 0], [1, 2], [2])] == [3, 1, 1]
    assert (begins > 1800).all() and (begins < when.opened).all()
    for row in measures.loss_kinks(data):
        assert [np.abs(row - step).min() <= 60 for step in (600, 1800, 3000)] == [True] * 3


def test_jumps_and_drops_of_made_up_features() -> None:
    found = measures.measure(made_up()).estimates
    assert found["dynamics-sudden"].value == pytest.approx(1)
    assert found["dynamics-drops"].value == pytest.approx(1, abs=1e-3)
    assert found["dynamics-levels"].value == found["dynamics-digons"].value == 1
    assert found["dynamics-kink-opening-fine"].value == pytest.approx(1)  # both open alike
    assert found["dynamics-plane"].value == 1
    assert found["dynamics-regimes"].value == found["dynamics-octahedron"].value == 1


@pytest.mark.parametrize(("sign", "expected"), [(-1, measures.DIGON), (1, measures.PARALLEL)])
def test_losses_of_pairs_are_those_of_their_optima(sign: int, expected: float) -> None:
    p, x = measures.DENSITY, (np.arange(500) + 0.5) / 500
    y = x[:, None]

    def loss(weights: np.ndarray) -> float:
        w, b = weights
        alone = (x - np.maximum(w * x + b, 0)) ** 2 + np.maximum(sign * w * x + b, 0) ** 2
        both = 2 * (x - np.maximum(w * (x + sign * y) + b, 0)) ** 2
        none = 2 * max(b, 0) ** 2
        found = (1 - p) ** 2 * none + 2 * p * (1 - p) * alone.mean() + p**2 * both.mean()
        return float(found)

    assert minimize(loss, [0.8, 0.0], method="Nelder-Mead").fun == pytest.approx(expected, abs=2e-6)
    assert p / 3 - p**2 / 4 == pytest.approx(measures.DROPPED)


def test_pairs_that_cost_more_than_digons_are_none() -> None:
    data = made_up().data
    cost = measures.PARALLEL - measures.DIGON
    worlds = [data.loss, data.loss + cost * xr.DataArray([0, 1], dims="seed"), data.loss + cost]
    found = [measures._digons(data.assign(loss=loss), 1).value for loss in worlds]
    assert found == [1, 0.5, 0]


def test_features_that_drift_until_the_last_crossing_are_on_no_level_before() -> None:
    data, name = made_up().data, "dynamics-levels"
    found = [measures._between(data, drifts)[name].value for drifts in (False, True)]
    # Those that go from 0 to 1/2 until step 4200 or 3000 are on a level for two fifths of the way.
    assert found[0] == 1 and found[1] < 0.5
    early = xr.where(data.step < 300, 0.0, data.dimensionality.isel(step=-1))
    again = data.assign(dimensionality=early.transpose(*data.dimensionality.dims))
    assert measures._between(again) == {}


def test_sets_askew_are_at_no_right_angle() -> None:
    record, found = made_up(), []
    for degrees in (76, 74):
        turn = np.radians(degrees)
        one = np.array([[1.0, np.cos(turn)], [0.0, np.sin(turn)], [0.0, 0.0]])[
            :, [0, 0, 0, 1, 1, 1]
        ]
        W = xr.zeros_like(record.data.set_W) + xr.DataArray(one, dims=DIMS)
        found.append(measures._plane(record.data.assign(set_W=W.transpose(*DIMENSIONS))).value)
    assert found == [1, 0]


def test_kinks_are_counted_from_the_half_fall_of_their_own_loss() -> None:
    data = made_up().data
    late = data.copy(deep=True)
    late.set_W[10:] = data.set_W.values[:-10]
    late.set_loss[10:], late.set_loss[:10] = data.set_loss.values[:-10], data.set_loss.values[0]
    both = xr.concat([data.isel(seed=[0]), late.isel(seed=[0])], "seed")
    half = kinks.half_fallen(both.set_step.values, both.set_loss.values)
    assert np.diff(half) == pytest.approx([600], abs=60)
    at = measures.onset(both)
    rows = [np.array([step - 120]) for step in at]
    # As the seeds differ by a delay alone, kinks of the other are as near once they are aligned.
    assert measures._near_opening(both, rows, 0, at) == pytest.approx([0, 0])
    assert (measures._near_opening(both, rows, 0) < np.log(0.3)).all()


def test_a_passage_lasts_from_one_level_to_the_other() -> None:
    d = np.zeros((101, 3, 2))
    d[20:, 0, 0] = 0.5  # a jump
    d[40, 0, 1] = 0.5  # one measurement is no level
    d[10:20, 1, 1] = 0.25  # ten measurements between levels, so that eleven changes
    d[20:, 1, 1] = 0.45
    d[:, 2] = 0.3
    assert measures.passages(d) == [[pytest.approx(0.01)], [pytest.approx(0.11)], []]
    assert measures.sudden(d) == [1, 0]
    data = made_up().data
    nowhere = measures._sudden(data.assign(dimensionality=data.dimensionality.clip(0, 0.3)))
    assert nowhere == {}


def test_sets_on_a_line_are_in_no_plane() -> None:
    line = np.array([[1, 0.9, 1.1, -1, -0.8, -1.2], [0, 0.05, -0.1, 0.1, 0, 0.05], [0.0] * 6])
    record = made_up()
    W = record.data.set_W.copy()
    W[:, 1] = np.where((W.set_step < 3000).values[:, None, None], line, W[:, 1].values)
    assert sets.inside(line) > measures.SEPARATED
    found = measures.measure(Record(record.data.assign(set_W=W), record.notes)).estimates
    assert found["dynamics-plane"].value == 0.5
    broken = record.data.set_W.copy()
    broken[::5] = line  # four measurements without a break are no phase
    found = measures.measure(Record(record.data.assign(set_W=broken), record.notes)).estimates
    assert found["dynamics-plane"].value == 0


def test_kinks_are_near_openings_of_their_own_network() -> None:
    data = made_up().data
    data = xr.concat([data, data], "seed").assign_coords(seed=range(4))
    late = data.set_W.copy()
    for seed in range(4):
        late[10 * seed :, seed] = data.set_W.values[: 101 - 10 * seed, seed]
    data = data.assign(set_W=late)
    at = measures.onset(data)
    assert np.diff(at) == pytest.approx([600, 600, 600])
    kinks = [np.array([200.0, step]) for step in at]
    own = measures._near_opening(data, kinks, 0)
    far = np.log([600, 600, 600, 1200, 1200, 1800])
    assert own[0] == pytest.approx(np.log(30) - np.mean(far[[0, 3, 5]]))
    assert own[1] == pytest.approx(np.log(30) - np.mean(far[[0, 1, 4]]))
    other = measures._near_opening(data, kinks, 1)
    assert other[0] == pytest.approx(np.log(600) - np.mean(far[[3, 5]]))
    assert len(measures._near_opening(data, [*kinks[:3], np.array([])], 0)) == 3


def drifting() -> Record:
    """The same with a drift inside levels that lowers the loss, each seed by its own."""
    record, rng = made_up(), np.random.default_rng(0)
    drift = 0.05 * rng.random(record.data.loss.shape)
    d = record.data.dimensionality + xr.DataArray(drift, dims=("step", "seed"))
    moved = np.abs(np.diff(drift, axis=0, prepend=0)).cumsum(axis=0)
    loss = np.exp(-moved) + xr.zeros_like(record.data.loss)
    return Record(record.data.assign(dimensionality=d, loss=loss), record.notes)


def test_motion_inside_levels_is_no_change_of_level() -> None:
    data = drifting().data
    assert measures.drop_correlation(data, staying=True) == pytest.approx([1, 1], abs=0.05)
    assert max(measures.drop_correlation(data)) < 0.5
    d = np.array([[0.0, 0.45, 0.05, 0.1, 0.3], [0.09, 0.55, 0.5, 0.25, 0.31]])
    assert measures.stays(d).tolist() == [[True, True, False, False, False]]


def test_kinks_of_another_seed_or_of_a_smooth_loss_are_nulls() -> None:
    record = drifting()
    nulls = measures.nulls(record)
    (drops,) = nulls["false world"]["dynamics-drops"]
    assert drops.value > 0.9
    assert nulls["permuted"]["dynamics-regimes"][0].value < 1
    planes = [draw.value for draw in nulls["random"]["dynamics-plane"]]
    mixed, turned = planes[: measures.N_DRAWS], planes[measures.N_DRAWS :]
    assert np.mean(mixed) < 0.5
    # A direction is within 15 degrees of upright on another by the sine of that angle.
    assert len(turned) == measures.N_DRAWS
    assert np.mean(turned) == pytest.approx(np.sin(np.radians(15)), abs=0.2)
    mixed = nulls["permuted"]["dynamics-across"]
    assert np.mean([draw.value for draw in mixed]) == pytest.approx(6 / 15, abs=0.2)
    (sudden,) = nulls["false world"]["dynamics-sudden"]
    assert sudden.value == 0 and sudden.n == 2
    smooth = kinks.smooth_fall(np.arange(5.0), np.array([1.0, 0.9, 0.5, 0.4, 0.2]))
    np.testing.assert_allclose(smooth, 0.2 + 0.8 * 0.5 ** (np.arange(5) / 2))
    short = Record(record.data.isel(step=slice(0, 50)), record.notes)
    assert measures.nulls(short) == {}


def test_what_two_seeds_have_in_common_counts_for_nothing() -> None:
    data = made_up().data
    common = 1e-3 * np.random.default_rng(0).random(data.sizes["step"])[:, None]
    trend = data.assign(loss=data.loss * np.exp(-np.cumsum(common, axis=0)))
    assert measures.drop_correlation(trend) == pytest.approx(measures.drop_correlation(data))


def test_a_run_of_other_length_settles_nothing() -> None:
    record = made_up()
    short = Record(record.data.isel(step=slice(0, 50)), record.notes)
    measured = measures.measure(short)
    assert measured.estimates == {} == measured.unmet
    assert "another length" in measured.not_run["dynamics-kinks"]


def test_kinks_are_drawn_on_the_loss() -> None:
    record = made_up()
    data = record.data
    left, _, right = figure.octahedron(record).axes
    drawn = next(line for line in left.lines if "kinks" in str(line.get_label()))
    np.testing.assert_array_equal(drawn.get_xdata(), measures.loss_kinks(data)[0])
    label = [line for line in right.lines if line.get_label() == "octahedron"]
    np.testing.assert_array_equal(label[0].get_xdata(), measures.regimes(data).octahedron)
