"""Plateaus of training at losses of k-gons: where curves rest, and which polygon has that loss."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.records.record import Record
from circuitax.superposition.kgons import (
    critical_point,
    kgon_weights,
    one_hot_loss,
    optimal_kgon,
)
from experiments.superposition.kgons import measures
from experiments.superposition.kgons.plateaus import kgon_losses, nearest_kgon, plateaus


def test_two_rests_and_a_fall_between() -> None:
    step = np.arange(0, 10_001, 100)
    falls = np.interp(step, [0, 1000, 4000, 5000, 10_000], [0.3, 0.1, 0.1, 0.05, 0.05])
    never = np.geomspace(0.3, 0.001, step.size)
    found = plateaus(step, np.stack([never, falls], axis=1))
    assert [one.seed for one in found] == [1, 1]
    assert [one.level for one in found] == pytest.approx([0.1, 0.05])
    assert [(one.begin, one.end) for one in found] == [(1000, 4000), (5000, 10_000)]


def test_the_losses_of_k_gons_are_the_exact_ones() -> None:
    gons = {k: optimal_kgon(k) for k in (5, 6)}
    data = xr.Dataset(
        {"h": ("vertices", [0.0, 0, 0, 0, 0, gons[5].h, gons[6].h])},
        coords={"vertices": range(7)},
    )
    losses = kgon_losses(data, 6)
    for k in (3, 4, 5, 6):
        norm, bias = (gons[k].norm, gons[k].bias) if k in gons else (1.0, 0.0)
        weights = kgon_weights(k, 6, jnp.asarray(norm), jnp.asarray(bias), n_positive=6 - k)
        exact = float(one_hot_loss(weights))
        assert float(losses.sel(vertices=k)) == pytest.approx(exact, rel=1e-4)
        assert nearest_kgon(exact * 1.004, losses) == k
        assert nearest_kgon(exact * 1.006, losses) == -1
    assert nearest_kgon(0.08, losses) == -1
    assert kgon_losses(data, 5).sizes["vertices"] == 6


def test_a_polygon_with_the_norm_and_bias_of_another_is_no_critical_point() -> None:
    record = Record.load(Path(__file__).parents[3] / "results" / "kgons" / "accepted")
    gons = (record.data.sel(k=k) for k in record.data.k)
    at = {int(gon.k): (float(gon.norm), float(gon.bias)) for gon in gons}
    for k, other in ((5, 6), (6, 5), (4, 8), (7, 4)):
        exact = critical_point(kgon_weights(k, k, *at[other])).slope
        assert measures.kgon_slope(k, *at[other]) == pytest.approx(exact, rel=1e-5)
        assert exact > 0.03
    assert max(measures.kgon_slope(k, *own) for k, own in at.items()) < 1e-9
    (drawn,) = measures.nulls(record)["false world"]["T9-critical"]
    assert isinstance(drawn, float) and drawn > 0.1


def test_a_rest_on_the_way_is_told_from_the_end_of_training() -> None:
    record = Record.load(Path(__file__).parents[3] / "results" / "kgons" / "accepted")
    losses = kgon_losses(record.data, 6).values
    found = measures.measure(record).estimates
    assert (found["T9-plateaus"].value, found["T9-higher-first"].value) == (1, 0)
    rests = record.data.loss.copy(deep=True)
    rests[:60, :12], rests[60:, :12] = losses[4], losses[5]  # falls from the square's
    rests[:60, 12:], rests[60:, 12:] = losses[5], losses[4]
    rests[60:, 0] = 0.08  # of no polygon
    changed = measures.measure(Record(record.data.assign(loss=rests), record.notes)).estimates
    seeds = rests.sizes["seed"]
    assert changed["T9-higher-first"].value == pytest.approx(11 / seeds)
    assert changed["T9-plateaus"].value == pytest.approx((seeds - 1) / seeds)
