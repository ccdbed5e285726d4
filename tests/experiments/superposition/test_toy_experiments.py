"""The experiments on toy models: what they refuse, what they save, and what is read from it."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import xarray as xr
from matplotlib.container import ErrorbarContainer

from circuitax.figures.spec import draw_all
from circuitax.lab.lab import Lab
from circuitax.records.claims import settle
from circuitax.records.record import Record
from circuitax.training.optim import OptimSpec
from experiments.superposition.kgons import experiment as kgons
from experiments.superposition.pentagon import experiment as pentagon
from experiments.superposition.pentagon.claims import CLAIMS as PENTAGON_CLAIMS
from experiments.superposition.pentagon.claims import measure as measure_pentagon
from experiments.superposition.toy_intro import experiment as toy_intro
from experiments.superposition.toy_intro import figure as toy_intro_figure
from experiments.superposition.toy_intro import measures as toy_intro_measures
from experiments.superposition.toy_phase import experiment as toy_phase
from experiments.superposition.toy_phase import measures as toy_phase_measures
from experiments.superposition.toy_phase.claims import TABLE

INTRO = Path(__file__).parents[3] / "results" / "toy_intro" / "accepted"
SQUARE, DROPPED = [0, 90, 180, 270, 45], [1, 1, 1, 1, 0]
PENTAGON, EQUAL = [0, 144, 288, 72, 216], [1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("module", "fields", "message"),
    [
        (pentagon, {"max_magnitude": 0.0}, "max_magnitude=0.0 must be positive"),
        (pentagon, {"n_magnitudes": 1}, "n_magnitudes=1 must be from 2 to 1e"),
        (kgons, {"max_k": 5}, "max_k=5 must be from 6 to 12"),
        (kgons, {"max_k": 13}, "max_k=13 must be from 6 to 12"),
        (kgons, {"max_features": 7}, "max_features=7 must be at least max_k=8"),
        (toy_intro, {"seeds": 0}, "seeds=0 must be at least 1"),
        (toy_intro, {"restarts": -1}, "restarts=-1 must be at least 0"),
        (toy_intro, {"crossover_points": 1}, "crossover_points=1 must be at least 2"),
        (toy_intro, {"chunk": 7}, "chunk=7 must divide optim.steps="),
        (toy_phase, {"exact_grid": 1}, "exact_grid=1 must be at least 2"),
        (toy_phase, {"batch_size": 0}, "batch_size=0 must be at least 1"),
    ],
)
def test_a_spec_refuses(module: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        module.Spec(**fields)


def test_every_claim_of_the_pentagon_holds_in_a_new_record(tmp_path: Path) -> None:
    with jax.enable_x64(True):
        spec = pentagon.Spec(n_magnitudes=4)
        record = pentagon.run(spec, jax.random.key(0), Lab(tmp_path))
    measured = measure_pentagon(record)
    assert {v.verdict for v in settle(PENTAGON_CLAIMS, *measured)} == {"holds"}
    assert measured.estimates["pentagon-half"].value == pytest.approx(0.25, rel=1e-12)
    unequal = record.data.clips + 0.1 * (record.data.feature == 3)  # 2 and 3 must agree
    record = Record(record.data.assign(clips=unequal))
    assert np.isnan(measure_pentagon(record).estimates["pentagon-clip-23"].value)


def test_the_record_holds_the_minimum_of_the_twelve_gon(tmp_path: Path) -> None:
    short = kgons.Spec(12, 13, seeds=2, optim=OptimSpec(steps=2), every=1)
    data = kgons.run(short, jax.random.key(0), Lab(tmp_path)).data.sel(k=12)
    loss = data.potential.sel(n_features=[12, 13], positive=0).values
    assert float(data.norm) == pytest.approx(1.03322, abs=6e-6)
    assert float(data.bias) == pytest.approx(-0.46654, abs=6e-6)
    assert loss[0] == pytest.approx(0.195907, abs=6e-7)
    assert loss[1] == pytest.approx((36 * loss[0] + 1) / 39, rel=1e-12)  # one feature left out
    assert np.isnan(data.potential.sel(n_features=11)).all()


def test_bars_of_the_share_of_seeds_are_wilson_intervals() -> None:
    data = Record.load(INTRO).data
    share = toy_intro_figure.loss(Record(data)).axes[1]
    bars = [c for c in share.containers if isinstance(c, ErrorbarContainer)]
    for bar, base in zip(bars, data.importance_base.values, strict=True):
        cell = data.sel(importance_base=base)
        n, z = data.sizes["seed"], 1.959963984540054
        k = (cell.loss <= 1.05 * cell.optimum_loss).sum("seed").values
        centre, half = (k + z**2 / 2) / (n + z**2), z * np.sqrt(k * (n - k) / n + z**2 / 4)
        ends = np.array([s[:, 1] for s in bar.lines[2][0].get_segments()])
        wanted = np.stack([centre - half / (n + z**2), centre + half / (n + z**2)], axis=1)
        np.testing.assert_allclose(ends, np.clip(wanted, 0, 1), atol=1e-6)
        assert k.min() < n


@pytest.mark.parametrize(
    ("claim", "sparsity", "angles", "norms", "other_angles", "other_norms"),
    [
        ("T2-digons", 0.8, SQUARE, DROPPED, [0, 60, 180, 270, 45], DROPPED),
        ("T2-digons", 0.8, SQUARE, DROPPED, SQUARE, [0.4, 1, 1, 1, 0]),
        ("T2-dropped", 0.8, SQUARE, DROPPED, SQUARE, [1, 1, 1, 1, 0.06]),
        ("T2-dropped", 0.8, SQUARE, DROPPED, SQUARE, [1, 1, 1, 0, 0]),
        ("T3-represented-p0.1", 0.9, PENTAGON, EQUAL, PENTAGON, [1, 1, 1, 1, 0.4]),
        ("T3-gaps", 0.9, PENTAGON, EQUAL, [0, 72, 144, 216, 293], EQUAL),
    ],
)
def test_shares_count_the_networks_that_show_what_the_figure_does(
    claim: str,
    sparsity: float,
    angles: list[float],
    norms: list[float],
    other_angles: list[float],
    other_norms: list[float],
) -> None:
    data = Record.load(INTRO).data.sel(importance_base=[0.9], sparsity=[sparsity])
    W = data.W.transpose("seed", ...)
    W[:] = _in_plane(angles, norms)
    W[:10] = _in_plane(other_angles, other_norms)
    found = toy_intro_measures.measure(Record(data.assign(W=W))).estimates[claim]
    assert (found.value, found.n) == (0.75, 40)


def _in_plane(angles: list[float], norms: list[float]) -> np.ndarray:
    turned = np.radians(angles)
    return np.array([np.cos(turned), np.sin(turned)]) * norms


@pytest.mark.parametrize(
    "gone",
    [
        ["digon_loss", "pentagon_loss", "crossover_density"],
        [f"optimum_{name}" for name in ("loss", "error", "reached", "W", "b")],
    ],
)
def test_runs_without_what_the_claims_read_say_why_they_settle_nothing(gone: list[str]) -> None:
    record = Record(Record.load(INTRO).data.drop_vars(gone))
    measured = toy_intro_measures.measure(record)
    assert ("loss" in draw_all(toy_intro_figure.FIGURES, record)) == ("digon_loss" in gone)
    assert not measured.estimates and set(measured.not_run.values()) == {
        "this run has other sizes, importances or sparsities, or no exact optimum"
    }


def phase_record(order: list[int]) -> Record:
    """A diagram whose last feature is ignored at low importance, with the optima named in order."""
    spots = [*TABLE, (1.0, 0.65)]
    importance, density = np.array(spots)[order].T
    loss = np.array([*TABLE.values(), 0.1])[order]
    arrays: dict[str, Any] = {}
    coords: dict[str, Any] = {"model": list(toy_phase.MODELS), "seed": [0, 1]}
    for source, size in (("theory", 9), ("optimum", 5), ("trained", 3)):
        dims = ("model", f"importance_{source}", f"density_{source}")
        coords |= {dims[1]: np.geomspace(0.1, 10, size), dims[2]: np.geomspace(0.01, 1, size)}
        norm = np.broadcast_to(coords[dims[1]][None, :, None] >= 1, (2, size, size)).astype(float)
        arrays |= {f"{source}_norm": (dims, norm), f"{source}_interference": (dims, 0 * norm)}
        arrays |= {f"{source}_loss": (dims, norm + 1), f"{source}_closed_form": (dims, norm + 1)}
    for name, values in (("loss", norm + 1), ("norm", norm), ("interference", 0 * norm)):
        # Of the trained networks; the second one is always worse, and represents nothing.
        second = values + 1 if name == "loss" else 0 * values
        arrays[f"seeds_{name}"] = ((*dims, "seed"), np.stack([values, second], axis=-1))
    both = np.stack([importance, [1.0] * 7]), np.stack([density, [0.7, 0.5, *[0.2] * 5]])
    arrays |= {
        "spot_importance": (("model", "spot"), both[0]),
        "spot_density": (("model", "spot"), both[1]),
        "spot_loss": (("model", "spot"), np.stack([loss, loss])),
        "spot_interference": (("model", "spot"), np.stack([density, density])),
        "spot_dimensionality": (
            ("model", "spot", "spot_feature"),
            np.broadcast_to([0.5, 1.0, 0.49], (2, 7, 3)),
        ),
        "spot_W": (
            ("model", "spot", "spot_hidden", "spot_feature"),
            np.broadcast_to([[1.0, -1, 0], [1, 1, -2]], (2, 7, 2, 3)),
        ),
    }
    return Record(xr.Dataset(arrays, coords))


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5, 6], [6, 2, 0, 5, 1, 4, 3]])
def test_optima_are_found_by_their_place_in_the_diagram(order: list[int]) -> None:
    record = phase_record(order)
    found = {k: e.value for k, e in toy_phase_measures.measure(record).estimates.items()}
    assert found["T4-table"] == 0
    assert found["T4-blur"] == 0.65
    assert found["T4-confused"] == pytest.approx(1, rel=1e-12)
    assert found["T4-digon-dedicated"] == pytest.approx(0.01, rel=1e-9)
    assert found["T4-regions-optimum"] == found["regions-best"] == 1
    assert found["T4-regions-trained"] == 1, "of two the worse one is left out"
    record.data["spot_loss"][0, order.index(3)] += 1e-3
    record.data["seeds_norm"][0, 0, 0, 0] = 1
    changed = toy_phase_measures.measure(record).estimates
    assert changed["T4-table"].value == pytest.approx(1e-3, rel=1e-9)
    assert changed["regions-best"].value == pytest.approx(17 / 18, rel=1e-12)
    assert changed["regions-best"].n == 2, "seeds"
    assert changed["regions-best"].low < 0.6, "with the second seed alone"
