"""The phase proof as an experiment: what its record says, what is drawn, and what is refused."""

import jax
import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_rgb

from circuitax.figures.spec import draw_all
from circuitax.records.record import Record
from experiments.superposition.phase_proof import experiment, figure, measures
from experiments.superposition.phase_proof.claims import CLAIMS
from experiments.superposition.phase_proof.localised import located


def record() -> Record:
    """Two by two points: ignored, dedicated and superposed are proven, one point is open."""
    possible = np.array([[[1, 0, 0, 0], [0, 1, 0, 0]], [[0, 0, 1, 0], [1, 0, 1, 0]]], bool)
    lower = np.array([[0.1, 0.2], [0.3, 0.4]])
    upper = lower + np.array([[5e-7, 5e-7], [2e-6, 5e-7]])
    W = np.array([[[1, 0.1], [0.2, -1]], [[1, -1], [1, -1]]])
    configuration = np.stack([lower + 0.02, lower + 0.01, np.full((2, 2), np.inf), lower], -1)
    configuration[0, 0, 3] = configuration[0, 1, 3] = 1.0
    second = np.array([[[0.0, 0.01], [0.64, 0.81]], [[0.04, 0.09], [0.25, 0.36]]])
    family = np.array([[0.1, 0.11], [0.3, 0.31]])
    arrays = {
        "lower": lower,
        "upper": upper,
        "possible": possible,
        "optimiser_loss": upper - 1e-7,
        "optimiser_W": W,
        "formula_loss": np.array([[np.nan, 0.2], [0.3, 0.4]]) + 1e-3,
        "configuration_loss": configuration,
        "n_repeated": np.array([7, 8]),
        "n_wrong": np.array([0, 2]),
        "boundary": np.array([[0.1, 0.101], [0.4, 0.41]]),
        "boundary_second": second,
        "triple": np.array([0.7, 0.701]),
        "weak_second": np.array([0.09, 0.16]),
        "pentagon": family,
        "digons": np.array([[0.2, 0.21], [0.25, 0.26]]),
        "crossing": np.array([0.2, 0.201]),
    }
    named = {name: (experiment.DIMENSIONS[name], value) for name, value in arrays.items()}
    coords = {
        "density": [0.1, 1.0],
        "importance": [0.1, 10.0],
        "class": ["ignored", "dedicated", "antipodal", "aligned"],
        "configuration": ["ignore_first", "ignore_last", "pair_first", "pair_last"],
        "side": ["below", "above"],
        "end": ["low", "high"],
        "line": [0.1, 0.5],
        "family_density": [0.1, 0.4],
    }
    return Record(data=xr.Dataset(named, coords=coords), notes={"missing": "", "tolerance": 1e-6})


def test_measures_count_what_is_proven() -> None:
    found, unmet, _ = measures.measure(record())
    assert unmet == {} and set(found) == {claim.quantity for claim in CLAIMS}
    value = {name: estimate.value for name, estimate in found.items()}
    assert measures.proven_phases(record().data).tolist() == [
        ["ignored", "dedicated"],
        ["superposed", ""],
    ]
    assert value["proof-classes"] == value["proof-losses"] == 0.75
    assert found["proof-optimiser-class"] == (1, 1, 1, 3, "exact")
    # The closed forms name: ignored, ignored instead of dedicated, superposed.
    assert value["proof-closed-form-class"] == pytest.approx(2 / 3)
    assert value["proof-closed-form-loss"] == 1.0
    assert value["proof-balls"] == 2 and found["proof-balls"].n == 15
    assert value["proof-boundaries"] == pytest.approx(0.41 / 0.4 - 1)
    assert found["proof-first-order"][1:4] == pytest.approx((0.7, 0.9, 1))
    assert found["proof-triple-place"][:3] == pytest.approx((0.1290714, 0.1285714, 0.1295714))
    assert found["proof-weak"][1:3] == pytest.approx((0.3, 0.4))
    assert value["proof-crossing-once"] == 1.0
    # Without its coupling the closed form has no value; elsewhere it is off by 1e-3 and upper's.
    assert value["proof-formula"] == pytest.approx(1e-3, rel=2e-3)


def test_an_optimiser_outside_the_enclosure_and_a_wrong_order_are_counted() -> None:
    data = record().data.copy(deep=True)
    data["optimiser_loss"][0, 1] += 1e-5
    data["pentagon"][0] += 1.0
    data["triple"][1] = np.nan
    data["boundary_second"][0] = np.nan
    found = measures.measure(Record(data=data, notes=record().notes)).estimates
    assert found["proof-optimiser-loss"].value == pytest.approx(2 / 3)
    assert found["proof-crossing-once"].value == 0.5
    (jump,) = [claim for claim in CLAIMS if claim.id == "proof-first-order"]
    assert jump.expected.verdict(found["proof-first-order"]) == "undecided"
    (triple,) = [claim for claim in CLAIMS if claim.id == "proof-triple-point"]
    assert triple.expected.verdict(found["proof-triple-point"]) == "fails"


def test_open_points_are_crossed_and_proven_ones_coloured() -> None:
    drawn = draw_all(figure.FIGURES, record())
    left = drawn["proof"].axes[0]
    (cross,) = [line for line in left.lines if line.get_marker() == "x"]
    np.testing.assert_array_equal(cross.get_xydata(), [[1.0, 10.0]])
    # By importance, then density: ignored and superposed; dedicated and open.
    shown = np.asarray(left.collections[0].get_array()).reshape(2, 2, -1)[..., :3]
    expected = [["ignored", "superposed"], ["dedicated", ""]]
    for row, names in zip(shown, expected, strict=True):
        for colour, name in zip(row, names, strict=True):
            np.testing.assert_allclose(colour, to_rgb(figure.COLOURS[name]))
    assert "3 of 4 points" in drawn["proof"].get_suptitle()
    (star,) = [line for line in left.lines if line.get_marker() == "*"]
    np.testing.assert_allclose(star.get_xydata(), [[0.7005, 1.0]])


def test_without_the_library_nothing_is_run_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Watch:
        said = ()

        def log(self, message: str) -> None:
            self.said += (message,)

    monkeypatch.setattr(experiment, "has_flint", lambda: False)
    lab = Watch()
    found = experiment.run(experiment.Spec(), jax.random.key(0), lab)
    assert lab.said == ("no ball arithmetic: " + experiment.HOW,)
    estimates, _, not_run = measures.measure(found)
    assert estimates == {} and set(not_run) == {claim.id for claim in CLAIMS}
    assert "python-flint is not installed" in figure.proof(found).axes[0].texts[0].get_text()


def test_a_change_along_a_line_is_located() -> None:
    low, high, at = np.array([0.1, 1.0]), np.array([1.0, 3.0]), np.array([0.237, 2.999])
    found = located(low, high, lambda points: points >= at[:, None])
    np.testing.assert_allclose(found, at, rtol=1e-4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"grid": 1}, "grid=1 must be at least 2"),
        ({"tolerance": 0.0}, "tolerance=0.0 must be positive"),
        ({"boundary": (0.3, 0.7)}, "boundary"),
        ({"restarts": 0}, "restarts=0 must be at least 1"),
    ],
)
def test_wrong_fields_are_refused(fields, message) -> None:
    with pytest.raises(ValueError, match=message):
        experiment.Spec(**fields)
