"""Scaling, memorisation and constructive arrangements: specs and measures, on data made by hand."""

from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import xarray as xr

from circuitax.records.record import Record
from circuitax.superposition.feature_laws import clustered_correlation
from circuitax.training.optim import OptimSpec
from experiments.directions.toy_scaling import experiment as toy_scaling
from experiments.directions.toy_scaling import figure as scaling_figure
from experiments.directions.toy_scaling import measures as scaling_measures
from experiments.superposition.toy_constructive import experiment as toy_constructive
from experiments.superposition.toy_constructive import figure as constructive_figure
from experiments.superposition.toy_constructive import measures as constructive_measures
from experiments.superposition.toy_memorization import experiment as toy_memorization
from experiments.superposition.toy_memorization import figure as memorization_figure
from experiments.superposition.toy_memorization import measures as memorization_measures


@pytest.mark.parametrize(
    ("module", "fields", "message"),
    [
        (toy_scaling, {"widths": (12, 200)}, "widths=.* must all be below n_features=160"),
        (toy_scaling, {"alpha": (1.0,)}, "decay=.* must be as long as alpha="),
        (toy_scaling, {"active": 7.0}, r"active=7\.0 must be at most"),
        (toy_scaling, {"optim": OptimSpec()}, r"optim.weight_decay=0\.01 must be 0"),
        (toy_memorization, {"points": ((3, 8), (8, 9))}, "points=.* must increase from 3 or more"),
        (toy_memorization, {"density": 0.0}, r"density=0\.0"),
        (toy_memorization, {"optim": OptimSpec()}, r"optim.weight_decay=0\.01 must be 0"),
        (toy_constructive, {"n_clusters": 5}, "n_clusters=5 must divide n_features=12"),
        (toy_constructive, {"decay": (0.1, 0.0)}, "decay=.* must hold 2 increasing values"),
        (toy_constructive, {"strength": 1.0}, r"strength=1\.0"),
    ],
)
def test_a_spec_refuses(module: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        module.Spec(**fields)


def test_exponents_are_slopes_of_logarithms() -> None:
    width = np.array([3.0, 5.0, 11.0])
    values = np.stack([7 * width**-1.3, 0.1 * width**0.4])
    np.testing.assert_allclose(scaling_measures.exponent(width, values), [1.3, -0.4], rtol=1e-12)


def test_kept_norms_are_middles_of_cells_with_edges_at_one_half_and_one() -> None:
    norm = np.array([0.0, 0.4999, 0.5, 0.9999, 1.0, np.nan], np.float32)
    kept = toy_scaling.cell_middles(norm)
    half = 1 / 512
    np.testing.assert_allclose(kept, [half, 0.5 - half, 0.5 + half, 1 - half, 1 + half, np.nan])
    assert kept.dtype == np.float32


def test_polygons_and_represented_features_are_told_by_hand() -> None:
    turn = np.radians([0, 70, 150, 215, 290])  # gaps 70, 80, 65, 75, 70 of 72
    near = np.stack([np.cos(turn), np.sin(turn)])
    assert memorization_measures.regular(near)
    assert not memorization_measures.regular(near[:, [0, 1, 2, 3]])
    assert memorization_measures.regular(near * [0.8, 1, 1, 1, 1])  # of a mean of 0.96
    assert not memorization_measures.regular(near * [0.7, 1, 1, 1, 1])
    W = np.concatenate([near, 0.4 * near[:, :2]], axis=1)
    np.testing.assert_array_equal(memorization_measures.represented(W), near)


def test_a_peak_is_read_where_the_other_half_of_the_sets_has_it() -> None:
    rows = np.array([[1.0, 3, 9, 2], [1, 8, 4, 2], [1, 3, 7, 2], [1, 6, 5, 2]])
    values = xr.DataArray(rows, dims=("dataset", "points"))
    # Sets 0 and 2 have it at the third size, 1 and 3 at the second.
    np.testing.assert_array_equal(memorization_measures.at_peak(values), [3, 4, 3, 5])
    for falling in (True, False):
        monotone = xr.DataArray(np.sort(rows, axis=1)[:, :: -1 if falling else 1], dims=values.dims)
        end = monotone.isel(points=0 if falling else -1)
        assert (memorization_measures.at_peak(monotone) < end).all()


def test_circles_and_clusters_are_found_in_directions() -> None:
    turn = 2 * np.pi * np.arange(6) / 6
    circle = np.stack([np.cos(turn), np.sin(turn)])
    pairs = np.stack([[1.0, 1, -1, -1, 0, 0], [0, 0, 0, 0, 1, 1]])
    correlation = np.kron(np.eye(3), np.ones((2, 2)))
    data = xr.Dataset(
        {
            "W": (
                ("seed", "kind", "decay", "hidden", "feature"),
                np.stack([circle, pairs])[None, :, None],
            ),
            "correlation": (("kind", "feature", "other"), np.stack([correlation] * 2)),
        },
        {"kind": ["circular", "clustered"], "decay": [0.0]},
    )
    assert constructive_measures.circle(data) == pytest.approx(1)
    # Inside 1; between the clusters -1, 0 and 0.
    assert constructive_measures.clusters(data) == pytest.approx(1 + 1 / 3)
    shuffled = data.isel(feature=[0, 3, 1, 4, 2, 5])
    assert constructive_measures.circle(shuffled)[0, 0] < 0.5


def accepted(name: str) -> Record:
    return Record.load(Path(__file__).parents[3] / "results" / name / "accepted")


def test_loss_is_drawn_over_width_beside_the_ignored_tail() -> None:
    data = accepted("toy_scaling").data
    strong, weak, exponents = scaling_figure.scaling(Record(data)).axes
    curves = {str(line.get_label()): line for line in weak.lines}
    one = scaling_measures.arm(data, 2.0, 0.5)
    drawn = curves[r"$\alpha$ = 2"].get_ydata()
    np.testing.assert_allclose(drawn, one.loss.mean("seed").values, rtol=1e-6)
    dashed = [line for line in weak.lines if line.get_linestyle() == "--" and len(line.get_xdata())]
    tails = np.array([line.get_ydata() for line in dashed])
    assert np.abs(tails / one.ignored.values - 1).max(axis=1).min() < 1e-9
    labels = [text.get_text() for text in exponents.get_xticklabels()]
    assert labels[0] == "strong, 0" and len(labels) == 6
    assert strong.get_xscale() == strong.get_yscale() == "log"


def test_exponents_of_the_accepted_run_are_those_of_its_losses() -> None:
    record = accepted("toy_scaling")
    found = scaling_measures.measure(record).estimates
    loss = scaling_measures.arm(record.data, 1.0, -1.0).loss
    slopes = [np.polyfit(np.log(loss.width), np.log(row), 1)[0] for row in loss.values]
    assert found["scaling-strong-power"].value == pytest.approx(-np.mean(slopes), rel=1e-9)
    halved = record.data.assign(overlap=record.data.overlap / 2)
    bound = scaling_measures.measure(Record(halved, record.notes)).estimates["scaling-welch"]
    assert bound.value > 1.5


def test_norms_are_bimodal_where_few_lie_between_two_modes() -> None:
    data = accepted("toy_scaling").data
    rng, n = np.random.default_rng(0), data.sizes["feature"]
    norm = data.norm.copy(data=rng.uniform(0, 1.2, data.norm.shape))
    (two,) = np.flatnonzero((data.alpha == 1) & (data.decay == 0.5))
    norm[{"arm": two}] = np.where(np.arange(n) < n // 10, 1.0, 0.1)
    norm[{"arm": two, "feature": slice(n // 10, n // 10 + 5)}] = 0.5
    (one,) = np.flatnonzero((data.alpha == 1) & (data.decay == -1))
    norm[{"arm": one}] = np.linspace(0.4, 1.2, n)
    record = Record(data.assign(norm=norm))
    found, absent, _ = scaling_measures.measure(record)
    assert found["scaling-bimodal-weak"].value == pytest.approx(5 / (n // 10))
    assert found["scaling-bimodal-none"].value == pytest.approx(1, rel=0.05), "evenly spread"
    assert set(absent) == {"scaling-bimodal-strong"}
    # A flat tail from 0.3 to 1 has three sevenths of its features between the modes.
    drawn = scaling_measures.nulls(record)["random"]["scaling-bimodal-weak"]
    assert [draw.value for draw in drawn] == pytest.approx([3 / 4] * len(drawn), rel=0.2)


def test_decay_without_data_moves_the_share_as_it_does_with_data() -> None:
    record = accepted("toy_scaling")
    draws = scaling_measures.nulls(record)["untrained"]["scaling-lever"]
    assert [one.value for one in draws] == pytest.approx([1] * len(draws))
    norm = record.data.norm.copy(data=np.full(record.data.norm.shape, 1.4))
    ends = scaling_measures._decayed(record.data, norm).isel(seed=0, width=0, feature=0)
    wanted = {-1.0: 1, -0.3: 1 + 0.4 * np.exp(-0.3 * 13.07), 0.0: 1.4, 0.5: 0}
    for end, decay in zip(ends.values, record.data.decay.values, strict=True):
        assert end == pytest.approx(wanted[float(decay)], abs=0.003)


def test_the_norm_of_exact_polygons_is_drawn_beside_trained_norms() -> None:
    record = accepted("toy_memorization")
    figure = memorization_figure.descent(record)
    norm = figure.axes[1]
    (exact,) = [line for line in norm.lines if line.get_label() == "exact least, T-gon"]
    T = np.asarray(exact.get_xdata())
    np.testing.assert_allclose(exact.get_ydata(), (T / 2) ** 0.5 / np.sin(np.pi / T), rtol=1e-9)
    polygons = memorization_figure.polygons(record)
    assert f"$T$ = {T[-1]:g}" in [ax.get_title() for ax in polygons.axes]


def test_dependence_is_worth_what_it_is_not_to_linear_models() -> None:
    record = accepted("toy_constructive")
    alone = record.data.loss.sel(kind="independent")
    linear = record.data.linear_loss / record.data.linear_loss.sel(kind="independent")
    for worth in (1.0, 0.5):
        less = xr.where(record.data.kind == "independent", 1.0, worth)
        changed = record.data.assign(loss=less * linear * alone + 0 * record.data.loss)
        found = constructive_measures.measure(Record(changed, record.notes)).estimates
        assert found["constructive-loss-circular"].value == pytest.approx(worth)
        assert found["constructive-loss-clustered"].value == pytest.approx(worth)


def test_interference_is_the_covariance_of_a_feature_with_what_the_others_add() -> None:
    rng, n, density = np.random.default_rng(0), 6, 0.3
    correlation = np.stack([np.eye(n), clustered_correlation(n, 3, 0.8)])
    W = 0.2 * rng.normal(size=(2, 2, 1, 2, n))
    W[:, :, 0, 0] += [[[1, 1, 0, 0, -1, -1]], [[1, -1, 0, 0, 1, -1]]]  # together, and apart
    dims = ("seed", "kind", "decay")
    data = xr.Dataset(
        {
            "W": ((*dims, "hidden", "feature"), W),
            "loss": (dims, np.ones((2, 2, 1))),
            "correlation": (("kind", "feature", "other"), correlation),
        },
        {"seed": [0, 1], "kind": ["independent", "clustered"], "decay": [0.0]},
    )
    found = constructive_measures.interference(data, density)
    assert found.sel(kind="independent").values == pytest.approx([0, 0])
    z = rng.multivariate_normal(np.zeros(n), correlation[1], size=200_000)
    x = (z < NormalDist().inv_cdf(density)) * rng.random(z.shape)
    for seed in (0, 1):
        G = W[seed, 1, 0].T @ W[seed, 1, 0]
        added = x @ (G - np.diag(np.diag(G)))
        covariance = sum(np.cov(x[:, i], added[:, i])[0, 1] for i in range(n))
        wanted = covariance / x.var(axis=0).sum()
        assert float(found.sel(kind="clustered")[seed]) == pytest.approx(wanted, abs=0.02)
        assert (wanted > 0.15) if seed == 0 else (wanted < -0.15)


def test_gains_of_an_arrangement_are_drawn_as_ratios() -> None:
    record = accepted("toy_constructive")
    data = record.data
    middle = constructive_figure.loss(record).axes[1]
    curves = {str(line.get_label()): line for line in middle.lines}
    for kind in ("independent", "circular", "clustered"):
        wanted = (data.loss / data.permuted_loss).sel(kind=kind).mean("seed").values
        np.testing.assert_allclose(curves[kind].get_ydata(), wanted, rtol=1e-6)
