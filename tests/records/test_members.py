"""Members that count, by a mask over their own axis."""

import numpy as np
import pytest
import xarray as xr

from circuitax.records.members import members_where

DATA = xr.Dataset(
    {
        "loss": (("arm", "member"), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
        "alive": (("arm", "member"), [[True, False, True], [False, False, True]]),
        "full_alive": ("full_member", [False, True]),
        "full_loss": ("full_member", [7.0, 8.0]),
        "found": ("member", [False, False, False]),
        "learned": ("member", [True, True, False]),
    },
    coords={"arm": ["a", "b"]},
)


def test_members_of_one_arm() -> None:
    np.testing.assert_array_equal(members_where(DATA.sel(arm="a")).loss, [0.0, 2.0])
    np.testing.assert_array_equal(members_where(DATA.isel(arm=1)).loss, [5.0])


def test_the_axis_is_that_of_the_mask() -> None:
    found = members_where(DATA, "full_alive")
    np.testing.assert_array_equal(found.full_loss, [8.0])
    assert found.sizes["member"] == 3


def test_a_mask_may_be_computed() -> None:
    both = DATA.alive.any("arm")
    np.testing.assert_array_equal(members_where(DATA.loss, both).sel(arm="b"), [3.0, 5.0])


def test_otherwise_is_taken_only_where_nobody_is_left() -> None:
    one = DATA.sel(arm="a")
    found = members_where(one, "found", otherwise="alive")
    np.testing.assert_array_equal(found.loss, [0.0, 2.0])
    found = members_where(one, "learned", otherwise="alive")
    np.testing.assert_array_equal(found.loss, [0.0, 1.0])
    assert members_where(one, "found").sizes["member"] == 0


def test_an_arm_must_be_chosen_first() -> None:
    with pytest.raises(ValueError, match=r"mask 'alive' has axes \('arm', 'member'\)"):
        members_where(DATA)
