"""One layer with and without its denominators on text: equal beginnings, and the figure of both."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy.special import logsumexp

from circuitax.circuits.skip_trigrams import additive_heads_logits, counted
from circuitax.kernel.forward import behind_start
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.model import Model
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init
from circuitax.records.record import Record
from circuitax.training.language import text_losses
from circuitax.training.optim import OptimSpec
from experiments.one_layer.one_layer_circuits.additive import AdditiveTask, text_gap
from experiments.one_layer.one_layer_circuits.figure import additivity

SPEC = TransformerSpec(
    d_vocab=12,
    n_ctx=9,
    n_layers=1,
    n_heads=2,
    d_model=8,
    positions=Positions.shortformer,
    start_token=11,
)
TASK = AdditiveTask(optim=OptimSpec(learning_rate=0.05, steps=40), batch=8, seeds=2, chunk=20)
KEY = jax.random.key(5)
ACCEPTED = Path(__file__).parents[3] / "results" / "one_layer_circuits" / "accepted"


def summed_loss(model: Model, texts: np.ndarray) -> float:
    """Mean loss of the next token of sums over sources, by SciPy."""
    heads = counted(model)
    logits = np.array([additive_heads_logits(heads, text) for text in jnp.asarray(texts)])
    right = np.take_along_axis(logits[:, :-1], texts[:, 1:, None], axis=-1)[..., 0]
    return float((logsumexp(logits[:, :-1], axis=-1) - right).mean())


def test_both_families_begin_as_one_model_and_learn(tmp_path: Path) -> None:
    draws = np.random.default_rng(2)
    # Each token is mostly followed by the next one, so that there is something to learn.
    tokens = np.cumsum(draws.choice([1, 4], 3000, p=[0.9, 0.1])) % 11
    texts = behind_start(jnp.asarray(np.stack([tokens[k : k + 9] for k in range(0, 900, 9)])), 11)
    found = text_gap(TASK, SPEC, tokens, texts[:50], texts, KEY, Lab(tmp_path))
    curves = {name: found[f"{name}_curve"] for name in ("softmax", "sum")}
    for i, key in enumerate(member_keys(derive(KEY, "init"), 2)):
        model = init(key, SPEC)
        plain = float(text_losses(model, texts[:50]).mean())
        assert curves["softmax"][0, i] == pytest.approx(plain, rel=1e-5)
        assert curves["sum"][0, i] == pytest.approx(
            summed_loss(model, np.asarray(texts[:50])), rel=1e-5
        )
    for name, curve in curves.items():
        assert curve.shape == (3, 2), "before training and after each chunk"
        assert (curve[0] - curve[-1] > 1.0).all(), "most of log 11 = 2.4 nats can be learned"
        assert not np.array_equal(found[f"{name}_end"], curve[-1]), "on other windows"
        np.testing.assert_allclose(found[f"{name}_end"], curve[-1], atol=0.1)
    assert (found["softmax_end"] != found["sum_end"]).all()


def test_each_family_has_its_own_rate(tmp_path: Path) -> None:
    tokens = np.random.default_rng(3).integers(0, 11, 500)
    texts = behind_start(jnp.asarray(np.stack([tokens[k : k + 9] for k in range(0, 90, 9)])), 11)
    optim = OptimSpec(learning_rate=1e-3, steps=2)
    ends = [
        text_gap(
            AdditiveTask(optim=optim, sum_rate=rate, batch=4, seeds=1, chunk=1),
            SPEC,
            tokens,
            texts,
            texts,
            KEY,
            Lab(tmp_path / str(rate)),
        )
        for rate in (1.0, 2.0)
    ]
    np.testing.assert_array_equal(ends[0]["softmax_curve"], ends[1]["softmax_curve"])
    np.testing.assert_array_equal(ends[0]["sum_curve"][0], ends[1]["sum_curve"][0])
    assert (ends[0]["sum_curve"][1:] != ends[1]["sum_curve"][1:]).all()


def test_without_a_finite_pair_the_figure_says_so() -> None:
    data = xr.load_dataset(ACCEPTED / "data.nc")
    data["sum_end"] = np.nan * data["sum_end"]
    figure = additivity(Record(data))
    told = " ".join(text.get_text() for text in figure.findobj(lambda a: hasattr(a, "get_text")))
    assert "diverges beside a softmax" in told.replace("\n", " ")
    assert f"0 of {data.sizes['pair']} pairs" in told
