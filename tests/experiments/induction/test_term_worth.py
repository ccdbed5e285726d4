"""Worth of orders and layers, and offsets that heads prefer, from numbers made up by hand."""

import numpy as np
import pytest
import xarray as xr

from experiments.induction.shared.measures_term_worth import (
    nearness_alone,
    previous_preferred,
    term_worth,
    without_redundancy,
)


def test_worth_is_what_each_step_takes_off() -> None:
    # The paper's own numbers, a second member at half of them.
    order = np.array([[9.0, 3.8, 3.5], [4.5, 1.9, 1.75]])
    first = np.array([[9.0, 7.7, 3.85, 3.8], [4.5, 3.85, 1.925, 1.9]])
    members = xr.Dataset(
        {
            "uniform": ("member", [10.8, 5.4]),
            "order_loss": (("member", "order"), order),
            "first_order_loss": (("member", "selection"), first),
        }
    )
    worth = term_worth(members)
    np.testing.assert_allclose(worth.of_all_orders, [7.3, 3.65], rtol=1e-9)
    np.testing.assert_allclose(worth.of_both_layers, [5.2, 2.6], rtol=1e-9)
    found = np.array(worth)
    wanted = np.array([1.8, 5.2, 0.3, 1.3, 0.05, 3.9])
    np.testing.assert_allclose(found, np.stack([wanted, wanted / 2], axis=1), rtol=1e-9)


def attending(rows: list[list[float]]) -> xr.Dataset:
    """Two members alike whose first layer has these heads; the second attends to offset 3 alone."""
    first = np.array(rows)
    heads = np.stack([first, np.eye(4)[[3] * len(rows)]])
    attention = xr.DataArray([heads, heads], dims=("member", "layer", "head", "offset"))
    return xr.Dataset({"attention": attention})


def test_the_previous_token_is_preferred_to_those_beside_it() -> None:
    falling, previous = [0.4, 0.3, 0.2, 0.1], [0.1, 0.6, 0.2, 0.9]
    np.testing.assert_allclose(previous_preferred(attending([falling])), [-0.1, -0.1])
    np.testing.assert_allclose(previous_preferred(attending([falling, previous])), [0.15, 0.15])
    with pytest.raises(ValueError, match="attention has 3 offsets, must have those of 0 to 3"):
        previous_preferred(attending([falling]).isel(offset=[0, 1, 2]))


def test_nearness_alone_continues_the_fall_of_another_head() -> None:
    members = attending([[0.1, 0.9, 0.2, 0.1], [0.0, 0.9, 0.3, 0.3]]).isel(member=[0])
    drawn = nearness_alone(members, n_draws=100)
    values, counts = np.unique(np.round([draw.value for draw in drawn], 6), return_counts=True)
    # Ratios 2 and 1: each head with its own, or both with the other's.
    own, other = (0.4 - 0.2 + 0.3 - 0.3) / 2, (0.2 - 0.2 + 0.6 - 0.3) / 2
    assert values.tolist() == pytest.approx([own, other]) and counts.min() > 30
    # What is on record of the previous token does not count, and stays as it is.
    assert float(members.attention.isel(layer=0, offset=1).min()) == 0.9


def test_without_redundancy_savings_add_up() -> None:
    rng = np.random.default_rng(0)
    alone = xr.DataArray(rng.normal(2, 0.1, 12), dims="member")
    last = 0.1 * alone + rng.normal(0, 0.05, 12)
    drawn = without_redundancy(alone, last, n_draws=50)
    # Nine tenths are saved twice in the record, and nothing in the mean of a draw.
    assert float((last / alone).mean()) < 0.15
    assert all(0.95 < draw.value < 1.05 and draw.n == 12 for draw in drawn)
    assert len({draw.value for draw in drawn}) > 40
    # What is saved twice keeps its spread: an even tenth leaves none.
    even = without_redundancy(xr.ones_like(alone), 0.1 * xr.ones_like(alone), n_draws=3)
    assert [draw.value for draw in even] == pytest.approx([1, 1, 1])
