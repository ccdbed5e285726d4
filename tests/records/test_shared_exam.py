"""Intervals of seeds that share an exam, against means over seeds and exams drawn at random."""

import numpy as np
import pytest

from circuitax.records.estimate import exact, mean_estimate
from circuitax.records.shared_exam import over_seeds_only, widened


def test_a_widened_interval_covers_what_seeds_alone_do_not() -> None:
    rng, truth, n = np.random.default_rng(0), 0.4, 12
    of_seeds, of_exam = 0.3, 0.2
    # The exam's share of the variance of the mean: seeds have of_seeds² / n.
    share = of_exam**2 / (of_exam**2 + of_seeds**2 / n)
    covered = np.zeros(2)
    for _ in range(600):
        exam = of_exam * rng.normal()
        found = mean_estimate(truth + exam + of_seeds * rng.normal(size=n))
        wide = widened({"x": found}, {"x": share})["x"]
        covered += [one.low <= truth <= one.high for one in (found, wide)]
    narrow, wide_share = covered / 600
    assert narrow < 0.75 and 0.92 < wide_share < 0.99


def test_ends_move_by_the_root_and_others_stay() -> None:
    estimates = {"a": exact(2.0)._replace(low=1.0, high=5.0, n=8), "b": exact(3.0)}
    found = widened(estimates, {"a": 0.75, "c": 0.5})
    assert (found["a"].value, found["a"].low, found["a"].high) == (2.0, 0.0, 8.0)
    assert "75% of the variance" in found["a"].method and found["a"].n == 8
    assert found["b"] is estimates["b"] and "c" not in found
    endless = widened({"a": mean_estimate([1.0])}, {"a": 0.5})["a"]
    assert (endless.low, endless.high) == (-np.inf, np.inf)
    for share in (-0.1, 1.0):
        with pytest.raises(ValueError, match=rf"share={share} of 'a' must be in \[0, 1\)"):
            widened(estimates, {"a": share})


def test_what_is_left_out_is_said() -> None:
    found = over_seeds_only({"a": exact(2.0), "b": exact(3.0)}, ["a", "z"])
    assert found["a"].method == "exact, over seeds only: their common texts are left out"
    assert found["b"] == exact(3.0) and set(found) == {"a", "b"}
    assert found["a"][:4] == exact(2.0)[:4]
