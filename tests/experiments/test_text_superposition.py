"""Directions of real models: which rows are measured, and what the record says of them."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.kernel.norm import Norm
from circuitax.kit.real_model import SMALL
from circuitax.models.transformer import init_model
from circuitax.projection.laws import overlap_tail
from circuitax.records.claims import FAILS, HOLDS, settle
from circuitax.records.record import Record
from experiments.text_superposition import figure, measures
from experiments.text_superposition.claims import CLAIMS
from experiments.text_superposition.experiment import Spec
from experiments.text_superposition.features import FeatureSpec
from experiments.text_superposition.weights import directions

ACCEPTED = Path(__file__).parents[2] / "results" / "text_superposition" / "accepted"


def test_a_spec_refuses() -> None:
    with pytest.raises(ValueError, match="weights='gpt2' must be real or random"):
        Spec(weights="gpt2")
    with pytest.raises(ValueError, match="draws=1 must be at least 2"):
        Spec(draws=1)
    with pytest.raises(ValueError, match="seeds=1 must be at least 2"):
        FeatureSpec(seeds=1)
    with pytest.raises(ValueError, match=r"chunk=300 must divide optim.steps=10000"):
        FeatureSpec(chunk=300)


def test_what_a_neuron_reads_has_the_norm_folded_in() -> None:
    spec = SMALL.__class__(**{**vars(SMALL), "norm": Norm.layernorm})
    model = init_model(jax.random.key(0), spec, jnp.zeros(()).dtype)
    norm, mlp = model.blocks.mlp_norm, model.blocks.mlp
    assert norm is not None and mlp is not None
    gain = 1 + jnp.arange(norm.gain.size, dtype=float).reshape(norm.gain.shape) / 10
    blocks = model.blocks._replace(mlp_norm=norm._replace(gain=gain))
    found = {(x.kind, x.layer): x for x in directions("m", model.replace(blocks=blocks))}
    assert set(found) == {("tokens", -1)} | {
        (kind, layer) for kind in ("read", "gate", "write") for layer in (0, 1)
    }
    wanted = (gain[1][:, None] * mlp.W_in[1]).T
    wanted = wanted - wanted.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found["read", 1].rows, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["write", 0].rows, mlp.W_out[0])
    assert found["read", 0].dim == 15 and found["write", 0].dim == found["tokens", -1].dim == 16


def test_claims_compare_a_set_with_random_ones_of_its_shape() -> None:
    record = Record.load(ACCEPTED)
    data, found = record.data, measures.measure(record).estimates
    (i,) = np.flatnonzero(data.set.values == "ours tokens")
    one = data.isel(set=i).sel(centred=True)
    ratio = (one.mean_square / one.null_mean_square).values
    assert found["ours-tokens-above-random"].value == pytest.approx(ratio.mean(), rel=1e-6)
    assert found["ours-tokens-above-random"].n == data.sizes["draw"] == 8
    law = data.law.sel(group="ours tokens", multiple=3.0).item()
    dim = int(one.dim)
    assert law == pytest.approx(float(overlap_tail(dim, 3 / np.sqrt(dim))), rel=1e-6)
    less = Record(data, record.notes | {"models": ["ours"], "missing": "make smollm2"})
    again = measures.measure(less)
    assert "smollm2-common" not in again.estimates and "make" in again.not_run["smollm2-common"]


def test_the_tail_of_tokens_is_drawn() -> None:
    record = Record.load(ACCEPTED)
    ax = figure.tails(record).axes[0]
    lines = {str(line.get_label()): line for line in ax.lines}
    above = record.data.above.sel(group="ours tokens", centred=False).values
    drawn = np.asarray(lines["tokens, as they are"].get_ydata())
    np.testing.assert_allclose(drawn[above > 0], above[above > 0], rtol=1e-6)


def planted() -> Record:
    """The accepted sets, with dictionaries of 256 features whose numbers are made up."""
    record = Record.load(ACCEPTED)
    seed, level = np.arange(8), record.data.sizes["level"]
    noise = 0.01 * (seed - 3.5)
    centred = np.array([1.6, 1.5])[None] * (1 + noise[:, None]) / 64
    each = {
        "mean_square": centred,
        "dimensionality_sum": np.array([40.0, 41.0])[None] * (1 + noise[:, None]),
        "tail": centred / 10,
    }
    null = {
        "mean_square": np.full((8, 2), 1 / 64),
        "dimensionality_sum": np.full((8, 2), 51.0),
        "tail": np.full((8, 2), 0.001),
    }
    tails = np.exp(-np.linspace(0, 8, 33))[None, None] * (1 + noise[:, None, None])
    arrays = {
        **{f"feature_{k}": (("seed", "centred"), v) for k, v in each.items()},
        **{f"feature_null_{k}": (("seed", "centred"), v) for k, v in null.items()},
        "feature_above": (("seed", "centred", "multiple"), np.repeat(tails, 2, axis=1)),
        "feature_dimensionality": (("seed", "centred", "level"), np.ones((8, 2, level))),
        "feature_agreement": ("seed", 0.8 + noise),
        "feature_null_agreement": ("seed", np.full(8, 0.4)),
        "feature_error": ("seed", 0.2 + noise),
        "feature_components_error": ((), 0.5),
        "feature_dead": ("seed", 0.02 + noise / 10),
        "feature_welch": ("seed", np.full(8, 0.108)),
    }
    data = record.data.assign(arrays).assign_coords(seed=seed)
    about = {"dim": 64, "width": 256, "active": 8, "seeds": 8}
    return Record(data, record.notes | {"features": about})


def verdicts(record: Record) -> dict[str, str]:
    settled = settle(CLAIMS, *measures.measure(record))
    return {v.claim.id: v.verdict for v in settled if v.claim.id.startswith("features-")}


def test_planted_features_settle_their_claims() -> None:
    record = planted()
    found = measures.measure(record).estimates
    assert found["features-above-random"].value == pytest.approx(1.5)
    assert found["features-error"].value == pytest.approx(0.4)
    assert found["features-agree"].value == pytest.approx(0.4) and found["features-agree"].n == 8
    assert found["features-dims"].value == pytest.approx(40 / 51)
    assert set(verdicts(record).values()) == {HOLDS}
    lost = record.data.feature_error.values.copy()
    lost[2] = np.nan  # diverged
    data = record.data.assign(feature_error=("seed", lost))
    worse: xr.Dataset = data.assign(feature_dead=("seed", np.full(8, 0.5)))
    again = Record(worse, record.notes)
    assert measures.measure(again).estimates["features-above-random"].n == 7
    nine = worse.assign(feature_error=("seed", record.data.feature_error.values))
    assert verdicts(Record(nine, record.notes))["features-dead"] == FAILS


def test_features_are_drawn_beside_tokens() -> None:
    record = planted()
    drawn = figure.features(record)
    left, middle, _ = drawn.axes[:3]
    lines = {str(line.get_label()): line for line in left.lines}
    above = record.data.feature_above.sel(centred=False).mean("seed").values
    np.testing.assert_allclose(
        np.asarray(lines["features, as they are"].get_ydata())[:20], above[:20], rtol=1e-6
    )
    assert [text.get_text() for text in middle.get_xticklabels()][-1] == "features"
    assert "256 latents in 64 dimensions" in drawn.get_supxlabel()
    assert "2 % dead" in drawn.get_supxlabel()
