"""Parameter decomposition: specs that are refused, and what is measured and drawn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circuitax.records.record import Record
from experiments.superposition.toy_decomposition import figure, measures
from experiments.superposition.toy_decomposition.experiment import Spec, Target

ACCEPTED = Path(__file__).parents[3] / "results" / "toy_decomposition" / "accepted"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"density": 0.0}, "density=0.0 must be above 0 and at most 1"),
        ({"target_chunk": 7}, "target_chunk=7 must divide target_optim.steps"),
    ],
)
def test_a_spec_refuses(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spec(**fields)


def test_a_target_refuses() -> None:
    with pytest.raises(ValueError, match=r"penalty=0\.0 must be positive"):
        Target(penalty=0.0)
    with pytest.raises(ValueError, match=r"chunk=7 must divide optim\.steps"):
        Target(chunk=7)
    with pytest.raises(ValueError, match="seeds=1 must be at least 2"):
        Target(seeds=1)
    with pytest.raises(ValueError, match="candidates=0 must be at least 1"):
        Target(candidates=0)


def test_measures_are_means_over_seeds_of_each_target() -> None:
    record = Record.load(ACCEPTED)
    found = measures.measure(record).estimates
    cell = record.data.sel(target="large ID")
    assert found["spd-ratio-large-id"].value == pytest.approx(float(cell.norm_ratio.mean()))
    assert found["spd-ratio-large-id"].n == 16 and found["spd-ratio-small-id"].n == 16
    worst = record.data.faithfulness.mean("seed").max()
    assert found["decomposition-faithful"].value == pytest.approx(float(worst))
    resized = Record(record.data, record.notes | {"sizes": {"small": [3, 2], "large": [40, 10]}})
    assert not measures.measure(resized).estimates
    assert measures.measure(resized).not_run["spd-small"].startswith("this run has other sizes")


def test_norm_ratios_are_held_against_those_of_other_networks_and_of_apd() -> None:
    record = Record.load(ACCEPTED)
    data = record.data
    ratio, start = (float(data.norm_ratio.sel(target="large ID").mean()), data.start_norm_ratio)
    draws = measures.nulls(record)["mismatched"]
    at_start = float(start.sel(target="large").mean())
    assert [one.value for one in draws["spd-ratio-large"]] == pytest.approx([ratio, at_start])
    printed, lost = draws["spd-shrinks-less-large"]
    assert printed == pytest.approx(0.065) and lost.value == pytest.approx(1 - at_start)
    alone = Record(data.sel(target=["small", "large"]), record.notes)
    (only,) = measures.nulls(alone)["mismatched"]["spd-ratio-large"]
    assert only.value == pytest.approx(at_start)


@pytest.mark.parametrize(
    ("name", "target", "place", "wanted", "by_chance"),
    [
        # By the binomial law exactly two of 20 are alive with probability 0.285 where two are in
        # the mean, and exactly 40 of 200 with 0.0704.
        ("spd-alive-identity-small", "small ID", "identity", 2, 0.2852),
        ("spd-alive-large", "large", "encoder", 40, 0.0704),
    ],
)
def test_subcomponents_are_exactly_as_many_in_a_share_of_seeds(
    name: str, target: str, place: str, wanted: int, by_chance: float
) -> None:
    record = Record.load(ACCEPTED)
    counts = record.data.alive.copy()
    counts.loc[{"target": target, "place": place}] = [
        wanted + 1,
        wanted - 1,
        np.nan,
        *[wanted] * 13,
    ]
    changed = Record(record.data.assign(alive=counts), record.notes)
    found = measures.measure(changed).estimates[name]
    assert (found.value, found.n) == (pytest.approx(13 / 15), 15)
    draws = measures.nulls(changed)["random"][name]
    assert np.mean(draws) == pytest.approx(by_chance, abs=0.01)


def test_a_run_without_the_identity_between_settles_the_other_claims() -> None:
    whole = Record.load(ACCEPTED)
    record = Record(whole.data.sel(target=["small", "large"]), whole.notes)
    all_of_them, found = (measures.measure(item) for item in (whole, record))
    lost = set(all_of_them.estimates) - set(found.estimates)
    assert lost == set(found.not_run)
    assert {name for name in lost if "-id" in name} == lost and len(lost) == 6
    assert found.not_run["spd-small-id"] == "this run has no identity between"
    assert found.estimates["spd-large"] == all_of_them.estimates["spd-large"]


def test_each_feature_is_drawn_where_it_is_read() -> None:
    record = Record.load(ACCEPTED)
    ax = figure.parts(record).axes[0]
    W = record.data["small_W"].isel(small_seed=0).transpose("small_hidden", "small_feature").values
    ends = np.array([line.get_xydata()[1] for line in ax.lines if line.get_linestyle() == "-"])
    np.testing.assert_allclose(ends, W.T, rtol=1e-6)
    dots = [line for line in ax.lines if line.get_linestyle() == "None"]
    V, U = record.data["small_ID_V"].values, record.data["small_ID_U"].values
    np.testing.assert_allclose(dots[1].get_xdata(), V[:, 1] * U[:, 0], rtol=1e-6)
