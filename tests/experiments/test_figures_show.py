"""What figures show, read from what is drawn of the accepted records."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from circuitax.config.catalogue import discover
from circuitax.figures.palette import ORANGE
from circuitax.figures.spec import draw_all
from circuitax.figures.style import headline, new_figure, styled
from circuitax.records.record import Record
from experiments.induction.shared.figure_term_panels import terms
from experiments.one_layer.one_layer_circuits.figure_tables import bugs

ROOT = Path(__file__).parents[2]


def drawn(experiment: str, figure: str) -> Figure:
    (spec,) = [spec for spec in discover()[experiment].load_figures() if spec.name == figure]
    record = Record.load(ROOT / "results" / experiment / "accepted")
    return draw_all([spec], record)[figure]


def test_kgons_are_drawn_above_the_lowest_polygon() -> None:
    potential = drawn("kgons", "kgons").axes[1]
    curves = {line.get_label(): line for line in potential.lines if "gon" in str(line.get_label())}
    assert len(curves) >= 5
    at = [dict(zip(*line.get_data(), strict=True)) for line in curves.values()]
    for c in range(4, 13):
        assert min(curve[c] for curve in at if c in curve) == 0
    assert curves["7-gon"].get_ydata()[0] == 0 < curves["8-gon"].get_ydata()[0]


def test_counterexamples_beyond_their_bound_are_orange() -> None:
    printed = drawn("jl_theorem", "corollary").axes[1]
    heights = [bar.get_height() for bar in printed.patches]
    colours = [to_hex(bar.get_facecolor()) for bar in printed.patches]
    assert heights == pytest.approx([1.157, 0.854, 9 / 4, 0.7533 * 9 / 4], abs=2e-3)
    assert [colour == ORANGE.lower() for colour in colours] == [h > 1 for h in heights]
    text = " ".join(text.get_text() for text in printed.texts)
    assert "1.157" in text and "0.753\nof 0.444" in text


def test_families_are_drawn_over_gaussian_maps() -> None:
    figure = drawn("jl_distortion", "families")
    for ax in figure.axes:
        (gaussian,) = [line for line in ax.lines if line.get_label() == "Gaussian"]
        np.testing.assert_allclose(gaussian.get_ydata(), 1, rtol=1e-5)
    sparse = [line for line in figure.axes[2].lines if "sqrt{n}" in str(line.get_label())]
    assert min(sparse[0].get_ydata()) > 1.5  # one-hot features, very sparse maps


def test_the_transition_narrows_with_more_points() -> None:
    widths = drawn("jl_threshold", "transition").axes[1]
    for container in widths.containers:
        found = container.lines[0].get_ydata()
        assert found[0] > 1.2 * found[-1] > 0


@styled
def test_bugs_that_a_head_raises_are_seen_to_be_raised() -> None:
    record = Record.load(ROOT / "results" / "one_layer_circuits" / "accepted")
    figure = bugs(record)
    said = figure.axes[1]
    marks = {str(m.get_label()): np.asarray(m.get_offsets()) for m in said.collections[1:]}
    text, without, model = marks.values()
    first = record.data.isel(member=0)
    np.testing.assert_array_equal(model[:, 0], first.bug_said)
    np.testing.assert_array_equal(without[:, 0], first.bug_without)
    right = int((model[:, 0] > without[:, 0]).sum())
    headlines = [t.get_text() for t in figure.texts if t.get_text().startswith("Heads raise")]
    assert headlines[0].startswith(f"Heads raise {right} of their {len(model)} strongest")
    # What stands at the tick of 0 is 0, and nothing else does.
    zero = said.get_xticks()[0]
    assert said.get_xticklabels()[0].get_text() == "0"
    assert ((text[:, 0] == zero) == (first.bug_bigram == 0)).all() and (text[:, 0] > zero).any()
    assert min(model[:, 0].min(), without[:, 0].min()) >= 10 * zero


def test_the_missing_branch_of_the_crossover_is_explained() -> None:
    (ax,) = drawn("toy_intro", "crossover").axes
    (words,) = [text.get_text() for text in ax.texts]
    assert words.endswith("no start ends in a pentagon")


def test_regions_of_the_phase_diagram_are_named() -> None:
    figure = drawn("toy_phase", "phase")
    names = [text.get_text() for text in figure.axes[0].texts]
    assert set(names) >= {"ignored", "dedicated", "superposed"}


def test_the_guide_is_d_k_times_the_scaled_variance() -> None:
    ax = drawn("score_scale", "widths").axes[0]
    (guide,) = [line for line in ax.lines if "×" in str(line.get_label())]
    x, y = guide.get_data()
    np.testing.assert_allclose(y / x, y[0] / x[0])
    label = "not scaled, at initialisation"
    (unscaled,) = [line for line in ax.lines if line.get_label() == label]
    np.testing.assert_allclose(np.log(y), np.log(unscaled.get_ydata()), atol=0.15)


@styled
def test_orders_are_a_waterfall_of_nats_saved() -> None:
    shape = ("member", "layer", "head")
    rng = np.random.default_rng(0)
    order = np.array([4.0, 2.5, 2.2]) + 0.01 * rng.normal(size=(3, 1))
    layers = np.array([4.0, 3.5, 3.0, 2.5, 2.2]) + 0.01 * rng.normal(size=(3, 1))
    data = xr.Dataset(
        {
            "order_loss": (("member", "order"), order),
            "first_order_loss": (("member", "selection"), layers),
            "ablated": (shape, 2.3 + rng.random((3, 2, 4))),
            "ablated_preserving": (shape, 2.3 + rng.random((3, 2, 4))),
            "alive": ("member", np.ones(3, bool)),
            "loss": ("member", np.full(3, 2.2)),
            "uniform": 6.0,
        }
    )
    waterfall, by_layer = terms(Record(data)).axes[:2]
    bars = waterfall.patches
    tops = [bar.get_y() + bar.get_height() for bar in bars]
    assert tops[0] == pytest.approx(6) and tops[1:] == pytest.approx([b.get_y() for b in bars[:2]])
    assert bars[-1].get_y() == pytest.approx(order[:, 2].mean())
    assert [t.get_text().split("\n")[1] for t in waterfall.texts if "paper" in t.get_text()] == [
        "(paper: 1.8)",
        "(paper: 5.2)",
        "(paper: 0.3)",
    ]
    assert [bar.get_height() for bar in by_layer.patches] == pytest.approx([0.5, 1, 1.5, 1.8])


def test_dots_that_cover_each_other_in_the_corner_are_counted() -> None:
    figure = drawn("two_layer_circuits", "eigenvalues")
    (note,) = [legend.get_title().get_text() for legend in figure.legends]
    assert note == "dots: heads of layer 1 of 96 seeds; corner: both above 0.9"
    for ax, when in zip(figure.axes[:2], ("before training", "after"), strict=True):
        (dots,) = ax.collections
        places = np.asarray(dots.get_offsets())
        n = int((places > 0.9).all(axis=1).sum())
        assert ax.get_title() == f"{when}: {n} of {len(places)} dots in the corner"
        assert len(places) == 4 * 96 and (n > 300) == (when == "after")
        assert all(dots.get_zorder() > line.get_zorder() for line in ax.lines), "none is covered"


@styled
def test_a_headline_stands_above_the_panels_at_the_left() -> None:
    figure, axes = new_figure()
    headline(figure, "What it shows")
    figure.draw_without_rendering()
    title = next(text for text in figure.texts if text.get_text() == "What it shows")
    assert title.get_window_extent().y0 >= axes[0, 0].get_window_extent().y1
    assert title.get_window_extent().x0 < axes[0, 0].get_window_extent().x0


def test_heads_of_the_full_transformer_are_aligned_before_their_mean() -> None:
    record = Record.load(ROOT / "results" / "head_roles" / "accepted")
    direct = drawn("head_roles", "components").axes[0]
    names = [label.get_text() for label in direct.get_yticklabels()]
    row = names.index("layer 1: looks back most")
    heads = [f"head 1.{i}" for i in range(record.data.sizes["full_head"])]
    back = record.data.looks_back_full.isel(full_layer=1).values.argmax(axis=1)
    effects = record.data.direct_full.sel(full_component=heads).values
    expected = effects[np.arange(len(back)), back].mean()
    places = [line.get_data() for line in direct.lines if len(line.get_xdata()) == len(names)]
    assert any(x[row] == pytest.approx(expected) for x, _ in places)


def test_only_named_heads_pass_the_thresholds() -> None:
    looks = drawn("head_roles", "roles").axes[0]
    dots = [line for line in looks.lines if line.get_marker() in "o^" and line.get_xdata().size]
    back = np.concatenate([line.get_xdata() for line in dots if line.get_marker() == "o"])
    assert (back > 0.4).any() and (back < 0.4).any()
    for line in dots:
        x, y = line.get_data()
        if to_hex(line.get_color()) == ORANGE.lower():
            assert (y > 0.4).all() and (x < 0.4).all()
