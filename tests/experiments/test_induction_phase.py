"""What the phase-change experiment measures beside the library's own functions."""

from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from jaxtyping import Array

from circuitax.circuits.induction_scores import induction_scores
from circuitax.commands import job, run
from circuitax.data.repeated import RepeatedSource
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.lab.runs import VARIABLE, finished_runs, provenance
from circuitax.models.transformer import init_model
from circuitax.records.record import Record
from experiments.induction_phase import experiment as induction_phase
from experiments.induction_phase.experiment import in_context, without_heads

SIZES = TransformerSpec(d_vocab=8, n_ctx=12, n_layers=2, n_heads=2, d_model=8, init_scale=3.0)
TASK = RepeatedSource(4, 12, 8, min_period=3, max_period=6, distinct=True)


def score(model: Model, texts: Array) -> float:
    losses = induction_scores(model, texts).loss_by_position
    return float(in_context(TASK, losses))


def silenced(model: Model, layer: int, head: int) -> Model:
    heads = model.blocks.attention
    silent = heads._replace(W_O=heads.W_O.at[layer, head].set(0))
    return model.replace(blocks=model.blocks._replace(attention=silent))


def test_in_context_is_late_minus_early() -> None:
    losses = np.arange(11.0)  # predictions of tokens 1 ... 11
    # early: before a text can repeat, tokens 1 and 2; late: from where all do, tokens 7 ... 11
    assert in_context(TASK, jax.numpy.asarray(losses)) == 8.0 - 0.5


def test_heads_are_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model, texts = init_model(jax.random.key(1), SIZES), TASK(jax.random.key(2))
    prefix = induction_scores(model, texts).prefix
    # Random heads: call the one that matches prefixes best the induction head.
    monkeypatch.setattr(induction_phase, "PREFIX_SCORE", float(prefix.max()))
    layer, head = np.unravel_index(int(prefix.argmax()), prefix.shape)
    found = jax.jit(partial(without_heads, task=TASK))(model, texts)
    assert found["each"].shape == (2, 2, 2) and found["groups"].shape == (2, 2)
    held, reacts = found["each"]
    for i in range(2):
        for j in range(2):
            wanted = score(silenced(model, i, j), texts)
            np.testing.assert_allclose(reacts[i, j], wanted, rtol=1e-4, atol=1e-5)
    # Nothing reads the last layer's patterns again, and much reads the first one's output.
    np.testing.assert_allclose(held[1], reacts[1], rtol=1e-4, atol=1e-5)
    assert np.abs(held[0] - reacts[0]).max() > 1e-3
    np.testing.assert_allclose(found["groups"][:, 0], found["each"][:, layer, head], rtol=1e-4)
    everything = model
    for i, j in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        if (i, j) != (layer, head):
            everything = silenced(everything, i, j)
    np.testing.assert_allclose(found["groups"][1, 1], score(everything, texts), rtol=1e-4)


@pytest.mark.slow
def test_double_precision_reaches_the_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logging_as_before: None
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr(job, "keep_compiled_code", lambda folder: folder)
    assert run.main(["experiment=induction_phase", "scale=tiny", "dtype=float64"]) == 0
    (folder,) = finished_runs("induction_phase")
    assert provenance(folder)["dtype"] == "float64"
    losses = Record.load(folder).data.loss.values
    # Numbers of single precision would stay as they are.
    assert (losses != losses.astype(np.float32)).mean() > 0.9
