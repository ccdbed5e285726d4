"""The price of an induction head from made-up curves whose law is known."""

import numpy as np
import pytest
import xarray as xr

from circuitax.kernel.spec import TransformerSpec
from circuitax.records.record import Record
from experiments.induction.induction_price.claims import CLAIMS
from experiments.induction.induction_price.experiment import Spec
from experiments.induction.induction_price.measures import measure, onsets, own_shares

SHARES = np.array([1.0, 0.5, 0.25, 0.0])
TOKENS = np.arange(0, 41) * 50_000.0


def record(price: float = 2e5) -> Record:
    """Five seeds with onsets at ``price share^-1.5``, spread by seed; a quarter is too rare."""
    factors = np.exp([-0.2, -0.1, 0.0, 0.1, 0.2])
    with np.errstate(divide="ignore"):
        times = price * factors[:, None] * SHARES**-1.5
    # A ramp that crosses 0.2 at the onset, and stays.
    curve = 0.2 + (TOKENS - times[..., None]) / 1e6
    data = xr.Dataset(
        {
            "prefix": (("seed", "share", "step"), np.clip(curve, 0, 0.7)),
            "alive": (("seed", "share"), np.ones((5, 4), bool)),
            "repeat_rate": (("windows", "length"), [[0.2, 0.015], [0.8, 0.6]]),
            "threshold": 0.2,
            "min_period": 8,
        },
        coords={
            "tokens": ("step", TOKENS),
            "share": SHARES,
            "windows": ["plain", "repeated"],
            "length": [2, 8],
        },
    )
    return Record(data)


def test_the_law_is_read_at_the_rate_of_plain_text() -> None:
    found = record()
    times = onsets(found.data)
    np.testing.assert_allclose(times.isel(seed=2)[:3], [2e5, 2e5 * 2**1.5, 1.6e6], rtol=1e-6)
    assert np.isnan(times.isel(share=-1)).all()
    estimates, unmet, not_run = measure(found)
    assert not unmet and not not_run and {c.id for c in CLAIMS} <= set(estimates)
    assert estimates["price-exponent"].value == pytest.approx(1.5, abs=1e-3)
    assert estimates["price-all-repeat"].value == 1 and estimates["price-plain-none"].value == 0
    assert own_shares(found.data) == {2: 0.25, 8: pytest.approx(0.025)}
    price = estimates["price-plain-text"]
    assert price.value == pytest.approx(0.2 * 0.025**-1.5, rel=0.01)
    # All shares of a seed move together: prices scatter by the seeds, the exponent does not.
    assert price.low < 0.95 * price.value < 1.05 * price.value < price.high
    assert estimates["price-plain-2"].value == pytest.approx(1.6, rel=0.01)


def test_seeds_that_never_form_a_head_are_told_from_those_that_do() -> None:
    two_kinds = record().data
    two_kinds["prefix"][{"seed": [1, 3], "share": 2}] = 0.05
    estimates = measure(Record(two_kinds)).estimates
    assert estimates["formed-0.25"].value == pytest.approx(0.6)
    assert estimates["formed-0.5"].value == 1 and estimates["formed-0"].value == 0
    assert estimates["exponent-formed"].value == pytest.approx(1.5, abs=1e-3)
    assert estimates["price-exponent"].value > 1.55, "the law takes them for late ones"


def test_a_share_whose_training_ended_with_its_last_head_has_the_same_onsets() -> None:
    whole = record().data
    ended = whole.copy()
    # All five seeds have their head by 1.22 times the median onset; two measurements later it ends.
    last = np.searchsorted(TOKENS, 2e5 * np.exp(0.2)) + 2
    trained = xr.DataArray(np.arange(len(TOKENS)) <= last, dims="step")
    ended["prefix"] = whole.prefix.where((whole.share != 1) | trained)
    assert np.isnan(ended.prefix.sel(share=1)).any()
    np.testing.assert_array_equal(onsets(ended), onsets(whole))
    before, after = (measure(Record(data)).estimates for data in (whole, ended))
    assert before == after


def test_without_onsets_there_is_no_law() -> None:
    estimates, unmet, not_run = measure(record(price=1e8))
    assert estimates["price-all-repeat"].value == 0 and not not_run
    assert set(unmet) == {"price-exponent", "price-plain-text"}
    assert "0 trials at 0 shares had the event" in unmet["price-exponent"]


def test_refusals() -> None:
    model = TransformerSpec(d_vocab=512, n_ctx=64, n_layers=2, n_heads=1, d_model=8)
    for shares, message in (
        ((1.0, 0.5), "must fall, and be three or more"),
        ((0.5, 1.0, 0.0), "must fall, and be three or more"),
        ((1.0, 0.5, 0.1), "must end with 0, which is plain text"),
    ):
        with pytest.raises(ValueError, match=message):
            Spec(model=model, shares=shares)
    with pytest.raises(ValueError, match="max_period=64 must satisfy"):
        Spec(model=model, max_period=64)
