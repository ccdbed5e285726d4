"""The benchmark of the path ledger: its peer against every path one by one."""

import numpy as np
import pytest

from circuitax.circuits.expansion import path_streams
from experiments.benchmarks import path_ledger


@pytest.mark.parametrize("n_layers", [1, 3])
def test_meeting_in_the_middle_gives_every_path(n_layers: int) -> None:
    model = path_ledger.random_model(n_layers, 2, 1.0)
    direction = np.asarray(model.read_out.W_U[:, 3])
    scale = 1.0 if model.read_out.scale is None else float(model.read_out.scale[5])
    expected = np.asarray(path_streams(model))[:, 5] @ direction / scale
    values = path_ledger.all_path_values(model, 5, direction)
    np.testing.assert_allclose(values, expected, atol=1e-5 * np.abs(expected).max())
    path_ledger.require_equal(values, expected)
    with pytest.raises(RuntimeError, match="largest paths differ by"):
        path_ledger.require_equal(values, expected * 1.01)
