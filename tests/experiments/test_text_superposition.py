"""Directions of real models: which rows are measured, and what the record says of them."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.norm import Norm
from circuitax.kit.real_model import SMALL
from circuitax.models.transformer import init_model
from circuitax.projection.laws import overlap_tail
from circuitax.records.record import Record
from experiments.text_superposition import figure, measures
from experiments.text_superposition.experiment import Spec
from experiments.text_superposition.weights import directions

ACCEPTED = Path(__file__).parents[2] / "results" / "text_superposition" / "accepted"


def test_a_spec_refuses() -> None:
    with pytest.raises(ValueError, match="weights='gpt2' must be real or random"):
        Spec(weights="gpt2")
    with pytest.raises(ValueError, match="draws=1 must be at least 2"):
        Spec(draws=1)


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
