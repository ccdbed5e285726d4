"""Phase changes by the printed step, on curves worked out by hand."""

import numpy as np
import pytest
import xarray as xr

from experiments.induction.shared.phase_change import has_changed, jump_share, last_score


def curves() -> xr.Dataset:
    """Three members that save 4, 2 and 3 nats, of which 2.6, 1.9 and 2.4 in one stretch."""
    score = np.array([[0.0, 0.0, 0.5], [-1.4, -0.1, -0.6], [-4.0, -2.0, -2.5]])
    data = {"in_context": (("step", "member"), score), "jump": ("member", [2.6, 1.9, 2.4])}
    return xr.Dataset(data)


def test_a_change_is_five_eighths_of_what_two_layers_save() -> None:
    members = curves()
    usual = last_score(members)
    assert usual == pytest.approx((4 + 2 + 2.5) / 3)
    # Five eighths of four nats are 2.5, of three 1.875.
    assert has_changed(members, 4.0).values.tolist() == [True, False, False]
    assert has_changed(members, 3.0).values.tolist() == [True, True, True]
    np.testing.assert_allclose(jump_share(members), [2.6 / 4, 1.9 / 2, 2.4 / 3])


def test_context_that_saves_nothing_has_no_step() -> None:
    # Every jump is above a step below zero.
    assert not has_changed(curves(), -0.1).any() and not has_changed(curves(), 0.0).any()
