"""The figure of a collected sweep: which sweeps it draws, and what it reads off them."""

import numpy as np
import pytest
import xarray as xr

from circuitax.records.record import Record
from experiments.text_models.figure import draw_sweep


def swept() -> xr.Dataset:
    """As experiments.collect leaves a sweep over width and depth; no run of one layer has two."""
    model, nan = ["layers-0", "layers-1", "full", "layers-2"], np.nan
    values = {
        "loss-layers-0": [[3.0, 2.9], [3.0, 2.9]],
        "loss-layers-1": [[2.5, 2.3], [2.5, 2.3]],
        "loss-layers-2": [[nan, nan], [2.2, 1.9]],
        "loss-full": [[2.1, 1.8], [2.1, 1.8]],
    }
    dims = ("n_layers", "d_model")
    data = {name: (dims, np.array(rows)) for name, rows in values.items()}
    for name, rows in values.items():
        data[f"{name}_low"] = (dims, np.array(rows) - 0.1)
        data[f"{name}_high"] = (dims, np.full((2, 2), np.inf))
    coords = {"model": model, "n_layers": [1, 2], "d_model": [32, 64]}
    return xr.Dataset(data, coords)


def test_width_and_depth() -> None:
    record = Record(swept(), notes={"axes": ["model.d_model", "model.n_layers"]})
    figure = draw_sweep(record)["sweep"]
    by_width, by_depth = figure.axes
    lines = {bars.get_label(): bars.lines[0].get_xydata() for bars in by_width.containers}
    assert list(lines) == ["0 layers", "1 layer", "2 layers", "2, with MLPs"]
    np.testing.assert_allclose(lines["2 layers"], [[32, 2.2], [64, 1.9]])
    deep = {bars.get_label(): bars.lines[0].get_xydata() for bars in by_depth.containers}
    np.testing.assert_allclose(deep["model.d_model=64"], [[0, 2.9], [1, 2.3], [2, 1.9]])


def test_one_axis_alone() -> None:
    data = swept().isel(n_layers=1, drop=True)
    assert list(draw_sweep(Record(data, notes={"axes": ["model.d_model"]}))) == ["sweep"]


@pytest.mark.parametrize("axes", [["model.n_layers"], ["model.d_model", "seed"]])
def test_other_sweeps_have_no_figure(axes: list[str]) -> None:
    assert draw_sweep(Record(swept(), notes={"axes": axes})) == {}
