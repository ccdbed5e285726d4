"""Controls that tables name: what changes in them, and what stays."""

import numpy as np
import pytest
import xarray as xr

from circuitax.records import worlds


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return xr.Dataset(
        {
            "score": (("arm", "member", "step"), rng.normal(size=(3, 4, 5))),
            "label": (("member",), np.arange(4.0)),
            "W": (("member", "hidden"), rng.normal(size=(4, 3))),
        },
        {"arm": ["one", "two", "three"], "step": [0, 10, 20, 30, 40]},
        {"note": 1},
    )


def test_swap_exchanges_two_arms_and_no_other(data, rng):
    world = worlds.swap("arm", ["one", "three"])(data, rng)
    np.testing.assert_array_equal(world.score.sel(arm="one"), data.score.sel(arm="three"))
    np.testing.assert_array_equal(world.score.sel(arm="two"), data.score.sel(arm="two"))
    assert world.attrs == {"note": 1}


def test_at_start_holds_the_first_entry(data, rng):
    world = worlds.at_start("step")(data, rng)
    np.testing.assert_array_equal(world.score.isel(step=-1), data.score.isel(step=0))
    np.testing.assert_array_equal(world.step, data.step)


def test_shuffle_moves_variables_together_and_within_each(data, rng):
    world = worlds.shuffle("step", ["score"], each=["arm", "member"])(data, rng)
    np.testing.assert_allclose(np.sort(world.score), np.sort(data.score))
    assert not np.array_equal(world.score, data.score)
    np.testing.assert_array_equal(world.label, data.label)


def test_roll_leaves_no_unit_in_its_place(data, rng):
    world = worlds.roll("member", ["label"])(data, rng)
    assert (world.label != data.label).all()
    np.testing.assert_array_equal(world.score, data.score)


def test_random_like_keeps_every_length(data, rng):
    world = worlds.random_like(["W"], "hidden")(data, rng)
    length = np.linalg.norm(data.W, axis=1)
    np.testing.assert_allclose(np.linalg.norm(world.W, axis=1), length)
    cosine = np.sum(world.W.values * data.W.values, axis=1) / length**2
    assert (np.abs(cosine) < 0.999).all()
