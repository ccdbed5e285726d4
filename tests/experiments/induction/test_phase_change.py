"""Phase changes by the printed step, on curves worked out by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits import losses
from experiments.induction.shared.phase_change import (
    JUMP,
    JUMP_WINDOW,
    has_changed,
    jump_share,
    jumps,
    last_score,
    of_size,
    speed_up,
    steepest_fall,
    sudden,
)


def curves() -> xr.Dataset:
    """Three members that save 4, 2 and 3 nats, of which 2.6, 1.9 and 2.4 in one quarter."""
    score = -np.array(
        [
            [0.0, 0.0, 2.6, 2.6, 3.3, 4.0],
            [0.0, 0.1, 2.0, 2.0, 2.0, 2.0],
            [-0.5, -0.5, 0.1, 2.5, 2.5, 2.5],
        ]
    ).T
    return xr.Dataset({"in_context": (("step", "member"), score)}, {"step": 10 * np.arange(6)})


def test_a_change_is_five_eighths_of_what_two_layers_save() -> None:
    members = curves()
    usual = last_score(members)
    assert usual == pytest.approx((4 + 2 + 2.5) / 3)
    # Five eighths of four nats are 2.5, of three 1.875.
    assert has_changed(members, 4.0).values.tolist() == [True, False, False]
    assert has_changed(members, 3.0).values.tolist() == [True, True, True]
    np.testing.assert_allclose(jump_share(members), [2.6 / 4, 1.9 / 2, 2.4 / 2.5])


def test_a_window_lies_between_measurements_and_ends_with_the_last_one() -> None:
    score = -np.array([[0.0, 1.0, 1.0, 4.0], [0.0, 4.0, 5.0, 5.0]])
    steps = np.array([0, 10, 90, 100])
    members = xr.Dataset({"in_context": (("member", "step"), score)}, {"step": steps})
    # The first falls by 3 in the last ten of 100 steps; the second by 4 in ten, then by 1 in 80.
    # A window is 25 steps.
    np.testing.assert_allclose(steepest_fall(members), [3.0, 4 + 15 / 80])
    np.testing.assert_allclose(jump_share(members, 1 / 10), [3 / 4, 4 / 5])


def test_context_that_saves_nothing_has_no_step() -> None:
    # Every jump is above a step below zero.
    assert not has_changed(curves(), -0.1).any() and not has_changed(curves(), 0.0).any()


def test_a_gain_that_forms_evenly_is_no_jump_however_large() -> None:
    steps = np.arange(13)
    even, late = steps / 12.0, (steps >= 6) * 1.0
    score = -4 * np.stack([even, late, 1 - (1 - even) ** 2], axis=1)
    members = xr.Dataset({"in_context": (("step", "member"), score)}, {"step": steps})
    # In no sixth does an even gain, or one that slows down, have more than in an earlier one.
    assert jumps(members).values.tolist() == [False, True, False]
    large = of_size(members, 400.0)
    assert last_score(large) == pytest.approx(400)
    assert has_changed(large, 4.0).values.tolist() == [False, True, False]
    assert not jumps(members.assign(in_context=-members.in_context)).any(), "a loss by context"


def test_a_gain_that_speeds_up_to_the_end_is_no_jump() -> None:
    share = np.linspace(0, 1, 25)
    score = -np.stack([share**4, share**10, np.clip(4 * share - 2, 0, 1)], axis=1)
    members = xr.Dataset({"in_context": (("step", "member"), score)}, {"step": np.arange(25)})
    assert (speed_up(members.in_context, JUMP_WINDOW) >= JUMP).all(), "all get faster"
    assert jumps(members).values.tolist() == [False, False, True]


def test_what_changes_in_the_first_sixth_is_sudden_in_a_narrower_window() -> None:
    steps = np.arange(0, 101)
    falls = [np.clip((steps - at) / 2, 0, 1) for at in (10, 50)] + [steps / 100, 0 * steps]
    curve = xr.DataArray(-np.stack(falls, axis=1), {"step": steps}, ("step", "member"))
    members = xr.Dataset({"in_context": curve})
    assert jumps(members).values.tolist() == [False, True, False, False]
    whole = -curve.isel(step=-1)
    assert sudden(curve, whole).values.tolist() == [True, True, False, False]
    assert not sudden(curve, 3 * whole).any() and not sudden(-curve, -whole).any()


def test_the_rise_in_speed_is_that_of_the_library() -> None:
    rng = np.random.default_rng(0)
    score = np.cumsum(-(rng.uniform(0, 1, (60, 25)) ** 3), axis=1)
    steps = np.cumsum(rng.integers(1, 9, 25))
    members = xr.Dataset({"in_context": (("member", "step"), score)}, {"step": steps})
    width = JUMP_WINDOW * np.ptp(steps)
    want = losses.speed_up(jnp.asarray(steps), jnp.asarray(score), width)
    np.testing.assert_allclose(speed_up(members.in_context, JUMP_WINDOW), want, atol=1e-4)
