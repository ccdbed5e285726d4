"""The figure of a collected sweep: which sweeps it draws, and what it reads off them."""

import numpy as np
import pytest
import xarray as xr

from circuitax.figures.spec import draw_all
from circuitax.records.record import Record
from experiments.one_layer.shared.figure_text_family import samples, training
from experiments.one_layer.shared.measures_text_family import measure
from experiments.one_layer.text_models.figure import SWEEP_FIGURES


def trained(last_gain: float) -> Record:
    """Two seeds a model, whose loss falls by half as much with each doubling of tokens."""
    models, members, steps = ["layers-0", "layers-1", "full"], 2, np.array([0, 5, 10])
    ends = {"layers-0": 3.5, "layers-1": 3.0, "full": 2.8}
    end = np.array([ends[name] for name in models])
    gains = last_gain * np.array([0, 1, 3])  # above the end at T, T/2 and T/4
    length_loss = end[:, None, None] + gains[None, :, None] + np.array([0.0, 0.01])
    length_loss[2] = np.nan
    by_position = np.broadcast_to(end[:, None, None] + np.array([[0.0], [0.01]]), (3, 2, 7))
    loss = end[:, None, None] + np.array([2.0, 1.0, 0.0])[None, :, None] + np.array([0.0, 0.01])
    return Record(
        xr.Dataset(
            {
                "loss": (("model", "step", "member"), loss),
                "loss_by_position": (("model", "member", "position"), by_position),
                "length_loss": (("model", "length", "seed"), length_loss),
                "alive": (("model", "member"), np.ones((3, members), bool)),
                "unigram_loss": 5.0,
                "bigram_loss": 3.49,
                "trigram_loss": 2.9,
            },
            coords={
                "model": models,
                "step": steps,
                "tokens": ("step", steps * 100_000),
                "length": 1_000_000 // np.array([1, 2, 4]),
                "position": np.arange(1, 8),
            },
        )
    )


def test_what_more_text_gives_is_measured_in_the_same_seeds() -> None:
    found = measure(trained(0.08)).estimates
    assert found["last-doubling-layers-1"].value == pytest.approx(0.08)
    # The spread between seeds is in both lengths, and no part of the gain.
    assert found["last-doubling-layers-1"].high - found["last-doubling-layers-1"].low < 1e-9
    assert found["next-doubling-layers-1"].value == pytest.approx(0.04, abs=1e-4)
    assert found["limit-layers-1"].value == pytest.approx(3.005 - 0.08, abs=1e-3)
    assert found["text-zero-layers"].value == pytest.approx(3.505 - 3.49)
    assert "last-doubling-full" not in found


@pytest.mark.parametrize(("gain", "said"), [(0.08, "Short version"), (0.01, "Converged")])
def test_the_figure_says_whether_training_was_long_enough(gain: float, said: str) -> None:
    figure = training(trained(gain))
    (legend,) = figure.legends
    message = legend.get_title().get_text()
    assert message.startswith(said) and "1 million tokens a member" in message
    assert f"{gain:.3f} (0 layers), {gain:.3f} (1 layer)" in message
    labels = {text.get_text() for text in legend.get_texts()}
    assert {"unigram table", "bigram table", "trigram table", "2, with MLPs"} <= labels
    left, middle, right = figure.axes
    heights = {line.get_ydata()[0] for ax in (middle, right) for line in ax.lines}
    assert {3.49, 2.9} <= heights
    ends = [bars.lines[0].get_xydata() for bars in middle.containers]
    np.testing.assert_allclose(ends[1][:, 1], 3.005 + gain * np.array([0, 1, 3]))
    assert len(ends) == 2 and left.get_ylim()[1] < 5.5


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
    figure = draw_all(SWEEP_FIGURES, record)["sweep"]
    by_width, by_depth = figure.axes
    lines = {bars.get_label(): bars.lines[0].get_xydata() for bars in by_width.containers}
    assert list(lines) == ["0 layers", "1 layer", "2 layers", "2, with MLPs"]
    np.testing.assert_allclose(lines["2 layers"], [[32, 2.2], [64, 1.9]])
    deep = {bars.get_label(): bars.lines[0].get_xydata() for bars in by_depth.containers}
    np.testing.assert_allclose(deep["model.d_model=64"], [[0, 2.9], [1, 2.3], [2, 1.9]])


def test_one_axis_alone() -> None:
    data = swept().isel(n_layers=1, drop=True)
    assert list(draw_all(SWEEP_FIGURES, Record(data, notes={"axes": ["model.d_model"]}))) == [
        "sweep"
    ]


@pytest.mark.parametrize("axes", [["model.n_layers"], ["model.d_model", "seed"]])
def test_other_sweeps_have_no_figure(axes: list[str]) -> None:
    assert draw_all(SWEEP_FIGURES, Record(swept(), notes={"axes": axes})) == {}


def test_samples_break_between_words_and_keep_their_indentation() -> None:
    record = trained(0.02)
    prose = "word after word " * 12
    code = "def f(x):\n" + 8 * " " + "return x\n\ny = 1"
    record.notes["samples"] = {"layers-0": prose, "layers-1": code, "full": prose}
    first, second, third = samples(record).axes
    assert first.get_position().y0 == third.get_position().y0, "three stand beside each other"
    lines = first.texts[0].get_text().split("\n")
    assert " ".join(lines).split() == prose.split()
    assert 30 < max(map(len, lines)) <= 36
    assert second.texts[0].get_text() == code
