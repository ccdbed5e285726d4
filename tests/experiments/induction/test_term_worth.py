"""Worth of orders and layers, and local attention, from losses made up by hand."""

import numpy as np
import pytest
import xarray as xr

from experiments.induction.shared.measures_term_worth import (
    local_attention,
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


def test_even_attention_is_not_local() -> None:
    n_ctx = 8
    destinations = np.arange(n_ctx // 2, n_ctx)
    even = np.mean(1 / (destinations + 1))
    attention = np.full((1, 2, 3, 4), 0.9)
    attention[:, 0] = even
    attention[:, 0, 1, 1] += 0.3
    members = xr.Dataset(
        {"attention": (("member", "layer", "head", "offset"), attention), "n_ctx": n_ctx}
    )
    np.testing.assert_allclose(local_attention(members), [0.1], rtol=1e-12)
    attention[:, 0, 2, 3] -= 0.3
    np.testing.assert_allclose(local_attention(members, first=2), [-0.1], rtol=1e-12)
    with pytest.raises(ValueError, match="attention has 1 offsets, must have those of 0 and 1"):
        local_attention(members.isel(offset=[0]))


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
