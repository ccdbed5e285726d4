"""Members that diverged count in no estimate of `bigram`."""

import numpy as np
import xarray as xr

from circuitax.records.record import Record
from experiments.one_layer.bigram.measures import measure, nulls


def test_only_living_members_count() -> None:
    values = np.array([[4.0, 5.0, 100.0], [1.0, 3.0, 7.0]])
    alive = np.array([[True, True, False], [True, True, True]])
    over = ("width", "member")
    data = xr.Dataset(
        {
            "kl": (over, values),
            "held_out": (over, values + 1),
            "alive": (over, alive),
            "path_kl": (("kind", "seed"), [[1.0, 2.0], [2.0, 9.0], [1.5, 9.0]]),
            "path_alive": ("seed", [True, False]),
            "table_held_out_loss": 2.0,
        },
        coords={"kind": ["zero layers", "direct path", "whole, mean"]},
    )
    found = measure(Record(data=data)).estimates
    assert (found["bigram-full-width"].value, found["bigram-full-width"].n) == (2.0, 2)
    assert found["bigram-bottleneck"].value == 2.5
    assert (found["bigram-direct-path"].value, found["bigram-direct-path"].n) == (1.0, 1)
    assert found["bigram-marginal"].value == 0.5


def test_the_null_of_the_full_width_is_the_width_below_it() -> None:
    over = ("width", "member")
    data = xr.Dataset(
        {
            "kl": (over, [[9.0, 9.0], [3.0, 5.0], [1.0, 1.0]]),
            "held_out": (over, np.ones((3, 2))),
            "alive": (over, [[True, True], [False, True], [True, True]]),
            "path_kl": (("kind", "seed"), [[1.0, 2.0], [2.0, 9.0], [1.5, 9.0]]),
            "path_alive": ("seed", [True, True]),
            "table_held_out_loss": 2.0,
        },
        coords={"kind": ["zero layers", "direct path", "whole, mean"]},
    )
    (half,) = nulls(Record(data=data))["mismatched"]["bigram-full-width"]
    assert (half.value, half.n) == (5.0, 1), "of the member that lives"
