"""Samples: the value at once, the estimate of the function that makes it."""

import numpy as np
import pytest

from circuitax.records import estimate, sample
from circuitax.records.estimate import difference_estimate
from circuitax.records.resampled import best_estimate, resampled_estimate

VALUES = np.array([0.3, 1.7, 2.2, 0.9])


@pytest.mark.parametrize(
    ("found", "known"),
    [
        (sample.mean_of(VALUES), estimate.mean_estimate(VALUES)),
        (sample.geometric_mean_of(np.log(VALUES)), estimate.geometric_estimate(np.log(VALUES))),
        (sample.share_of(VALUES > 1), estimate.share_estimate(VALUES > 1)),
        (sample.exactly(3.5, 2), estimate.exact(3.5, 2)),
        (
            sample.difference_of(VALUES, VALUES[:2]),
            difference_estimate(VALUES, VALUES[:2]),
        ),
        (
            sample.resampled(lambda i: float(VALUES[i].max()), 4),
            resampled_estimate(lambda i: float(VALUES[i].max()), 4),
        ),
        (
            sample.best_of(VALUES, VALUES**2, float),
            best_estimate(VALUES, VALUES**2, float),
        ),
    ],
)
def test_value_and_estimate_agree(found, known):
    assert found.value == pytest.approx(known.value, rel=1e-15)
    assert found.estimate() == known


def test_units_without_a_number_are_left_out():
    found = sample.mean_of_those_finite([1.0, np.nan, 4.0])
    assert found.value == 2.5 and found.estimate().n == 2
    with pytest.raises(sample.Absent, match="no unit"):
        sample.mean_of_those_finite([np.nan])
