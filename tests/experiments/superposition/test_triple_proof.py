"""The proof for three features as an experiment: its measures, what is drawn, what is refused."""

import numpy as np
import pytest
import xarray as xr

from circuitax.records.record import Record
from experiments.superposition.triple_proof import experiment, figure, measures
from experiments.superposition.triple_proof.claims import CLAIMS


def record() -> Record:
    """Two points: at the first the superposed class is proven, the second stays open."""
    inf, nan = np.inf, np.nan
    class_lower = [
        [[0.1, 0.2, 0.1], [inf, 0.95, 0.9], [inf, inf, 0.96]],
        [[0.4, 0.2, 0.3], [inf, 1.6, 1.5], [nan, nan, nan]],
    ]
    W = np.array([[[0.1, 1, -1], [1, 0.0, 0.1]], [[1, 0, 0.1], [0, 1, 0.9]]], float)
    arrays = {
        "class_lower": (("point", "level", "class"), np.array(class_lower)),
        "lower": (("point", "level"), np.array([[0.1, 0.9, 0.96], [0.2, 1.5, nan]])),
        "n_boxes": (("point", "level"), np.array([[10, 80, 300], [10, 90, nan]])),
        "upper": ("point", np.array([1.0, 2.0])),
        "optimiser_loss": ("point", np.array([0.99, 2.0])),
        "density": ("point", np.array([0.3, 0.4])),
        "importance": ("point", np.array([0.5, 2.0])),
        "optimiser_W": (("point", "hidden", "feature"), W),
    }
    coords = {"point": ["a", "b"], "class": ["ignored", "dedicated", "superposed"]}
    return Record(data=xr.Dataset(arrays, coords=coords), notes={})


def test_measures_say_how_far_the_proof_got() -> None:
    found, unmet, _ = measures.measure(record())
    assert unmet == {} and set(found) == {claim.quantity for claim in CLAIMS}
    value = {name: estimate.value for name, estimate in found.items()}
    assert value["triple-bound"] == pytest.approx(0.96 / 0.99)
    assert value["triple-classes"] == 0.5
    assert value["triple-gap"] == 0.75
    assert value["triple-candidate"] == 1
    assert (measures.optimiser_classes(record().data) == "superposed").all()
    wrong = record()
    wrong.data["optimiser_W"][0, :, 2] = 0.01
    assert measures.measure(wrong).estimates["triple-candidate"].value == 0.5


def test_an_excluded_class_has_a_star_where_it_was_excluded() -> None:
    left, right, *unused = figure.levels(record()).axes
    stars = {
        line.get_color(): float(np.asarray(line.get_xdata())[0])
        for line in left.lines
        if line.get_marker() == "*"
    }
    assert stars == {figure.COLOURS["ignored"]: 90, figure.COLOURS["dedicated"]: 390}
    assert [
        np.asarray(line.get_xdata())[0] for line in right.lines if line.get_marker() == "*"
    ] == [100]
    thick = [line for line in left.lines if line.get_linewidth() > 2]
    assert [line.get_color() for line in thick] == [figure.COLOURS["superposed"]]
    np.testing.assert_allclose(np.asarray(thick[0].get_ydata()), np.array([0.1, 0.9, 0.96]))
    assert [ax.axison for ax in unused] == [False, False]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"density": (0.0,)}, "density"),
        ({"importance": (0.5, -1.0)}, "importance"),
        ({"levels": 0}, "levels=0"),
    ],
)
def test_what_is_refused(fields: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        experiment.Spec(**fields)
