"""ROC curves against counts of pairs, with ties and with cases worked by hand."""

import numpy as np
import pytest

from experiments.real_models.rotary_atlas.roc import roc_area, roc_curve


def test_a_curve_by_hand() -> None:
    curve = roc_curve([True, False, True, False], [0.9, 0.5, 0.5, 0.1])
    np.testing.assert_allclose(curve.false_alarms, [0, 0, 0.5, 1])
    np.testing.assert_allclose(curve.hits, [0, 0.5, 1, 1])
    assert roc_area([True, False, True, False], [0.9, 0.5, 0.5, 0.1]) == pytest.approx(7 / 8)


def test_the_area_is_the_share_of_pairs_in_order(rng: np.random.Generator) -> None:
    scores = rng.integers(0, 6, size=(5, 8)) / 5
    positive = rng.random((5, 8)) < 0.3
    high, low = scores[positive][:, None], scores[~positive][None, :]
    expected = (high > low).mean() + (high == low).mean() / 2
    assert roc_area(positive, scores) == pytest.approx(expected, rel=1e-12)
    assert roc_area(~positive, scores) == pytest.approx(1 - expected, rel=1e-12)


def test_what_has_no_curve_is_refused() -> None:
    with pytest.raises(ValueError, match="positive has 2 of 2 cases, must have some of both"):
        roc_area([True, True], [0.1, 0.2])
    with pytest.raises(ValueError, match="scores has 3 entries, must have 2"):
        roc_curve([True, False], [1, 2, 3])
    with pytest.raises(ValueError, match="scores must be finite"):
        roc_curve([True, False], [1, np.nan])
