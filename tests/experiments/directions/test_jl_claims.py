"""What the Johnson-Lindenstrauss experiments read from their records, on records made by hand."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from circuitax.projection.laws import ratio_cdf
from circuitax.records.record import Record
from experiments.directions.jl_distortion.claims import _largest_over_gaussian
from experiments.directions.jl_theorem.claims import measure as theorem
from experiments.directions.jl_threshold.claims import CLAIMS
from experiments.directions.jl_threshold.claims import measure as threshold

EPSILON, N = np.array([0.3, 0.6]), np.array([32, 1000])


def thresholds(constant: float, exponent: float) -> Record:
    """Thresholds m = constant ln N / ε^exponent; those of δ = 0.1 and 0.9 lie 50 and 30 apart."""
    median = constant * np.log(N) / EPSILON[:, None] ** exponent
    spacing = np.array([50, 30])
    found = np.stack([median, median + spacing / 2, median - spacing / 2])
    cells = ("epsilon", "n_points")
    data = xr.Dataset(
        {
            "threshold": (("delta", "end", *cells), found[:, None]),
            "resampled": (
                ("resample", "delta", *cells),
                found * np.array([0.9, 1, 1.1])[:, None, None, None],
            ),
            "predicted": (cells, 8 * np.log(N) / EPSILON[:, None] ** 2),
            "dasgupta_gupta": (cells, 2 * found[1]),
            "proof": (cells, median * np.array([[4.0, 5.0], [6.0, 7.0]])),
        },
        coords={"end": ["dim"], "epsilon": EPSILON, "n_points": N, "dim_out": [4, 800]},
        attrs={"n_maps": 40},
    )
    return Record(data=data)


def test_thresholds_that_follow_a_law_give_its_constants() -> None:
    found = threshold(thresholds(10.0, 1.8)).estimates
    assert found["jl-epsilon"].value == pytest.approx(-1.8)
    assert found["jl-log-n"].value == pytest.approx(10 / 8 * 0.3**0.2)
    assert found["slope"].value == pytest.approx(10 * 0.3**0.2)
    assert found["constant"].value == pytest.approx(10 * 0.3**0.2)
    assert found["jl-constant"].value == pytest.approx(10 / 8 * np.mean(EPSILON**0.2))
    assert found["jl-dasgupta-gupta"].value == pytest.approx(2)
    assert found["jl-proof-slack"].value == pytest.approx(4)
    # Widths are 50 and 30 at N = 32 and 1000, over medians that are as ln N.
    assert found["jl-sharpness"].value == pytest.approx(0.6 * np.log(32) / np.log(1000))
    low, high = np.percentile([0.9, 1, 1.1], [2.5, 97.5])
    assert found["constant"].low == pytest.approx(low * found["constant"].value)
    assert found["constant"].high == pytest.approx(high * found["constant"].value)
    assert found["constant"].n == 80


def test_a_table_that_ends_too_early_settles_nothing() -> None:
    record = thresholds(10.0, 2.0)
    record.data["threshold"][1, 0, 0, 1] = np.nan
    estimates, unmet, not_run = threshold(record)
    assert not estimates and not unmet
    assert not_run == {claim.id: "max_dim=800 is too small" for claim in CLAIMS}


def test_rates_and_fit_of_one_pair() -> None:
    rng = np.random.default_rng(0)
    gaussian = rng.chisquare(32, 200) / 32
    signs = np.array([0.8, 0.9, 0.99, 1.1, 1.2, 1.3])
    data = xr.Dataset(
        {
            "fails": (("kind", "map", "bound"), [[[0, 1], [1, 1]], [[1, 0], [1, 0]]]),
            "ratio": (("kind", "pair"), [signs, signs + 0.3]),
            "gaussian_ratio": ("pair_map", gaussian),
            "inner_beyond": ("map", [1, 2]),
            "cosine_beyond": ("map", [0, 4]),
            "moved": ("example", [0.25, 0.5]),
        },
        coords={
            "kind": ["signs", "proof"],
            "bound": ["statement", "proof"],
            "example": ["E8-inner", "E10-without-zero"],
        },
        attrs={"pair_epsilon": 0.3, "law_dim": 32},
    )
    found = theorem(Record(data=data)).estimates
    wanted = {
        "thm27-statement": 0.5,
        "thm27-proof": 0.0,
        "thm27-E8-maps": 1.0,
        "thm27-E8-upper": 3 / 6,
        "thm27-E8-lower": 3 / 6,
        "thm27-E9": 2 / 3,  # of 0.8, 1.2 and 1.3
        "cor28-inner": 3,
        "cor28-cosine": 4,
        "cor28-E8-inner": 0.25,
        "cor28-E10-without-zero": 0.5,
    }
    for name, value in wanted.items():
        assert found[name].value == value, name
    fit = stats.kstest(gaussian, lambda ratio: ratio_cdf(ratio, 32)).pvalue
    assert found["jl-gaussian-law"].value == pytest.approx(fit, rel=1e-10)


def test_a_family_is_compared_where_it_is_worst() -> None:
    worst = np.ones((1, 2, 8, 3))
    worst[0, 1] = [0.8, 1.3, 0.9]
    data = xr.Dataset(
        {"worst": (("cloud", "family", "map", "dim_out"), worst)},
        {"cloud": ["one_hot"], "family": ["gaussian", "lecun"], "dim_out": [8, 16, 24]},
    )
    assert _largest_over_gaussian(Record(data), "lecun").value == pytest.approx(1.3)
