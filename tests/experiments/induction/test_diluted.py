import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.data.windows import WindowSource
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.training.language import text_losses
from experiments.induction.induction_price.diluted import DilutedRepeats, diluted_texts

SPEC = TransformerSpec(d_vocab=500, n_ctx=12, n_layers=1, n_heads=1, d_model=4)
# Every token tells its own place in the text.
PROBLEM = DilutedRepeats(Transformer(SPEC), WindowSource(2000, 12, jnp.arange(500)), 3, 5)


def test_a_share_of_the_windows_repeats_and_larger_shares_hold_smaller_ones() -> None:
    batch = PROBLEM.batch(jax.random.key(1), jnp.array(7))
    whole = np.asarray(batch.windows)
    before = np.zeros(2000, bool)
    for share in (0.0, 0.1, 0.6, 1.0):
        rows = np.asarray(diluted_texts(batch, jnp.asarray(share)))
        repeats = (rows != whole).any(axis=1)
        assert abs(repeats.mean() - share) < 4 * np.sqrt(share * (1 - share) / 2000) + 1e-9
        assert (repeats >= before).all()
        before = repeats
        for row, period in zip(rows[repeats], np.asarray(batch.period)[repeats], strict=True):
            np.testing.assert_array_equal(row, row[0] + np.arange(12) % period)
    assert set(np.asarray(batch.period)) == {3, 4, 5}


def test_the_loss_is_that_of_the_texts_of_its_share() -> None:
    batch = PROBLEM.batch(jax.random.key(2), jnp.array(0))
    params = PROBLEM.init(jax.random.key(0), jnp.array(0.5))
    model = model_from_params(params, SPEC)
    for share in (0.0, 0.5):
        texts = diluted_texts(batch, jnp.asarray(share))
        found = PROBLEM.loss(params, batch, jnp.asarray(share))
        assert float(found) == pytest.approx(float(text_losses(model, texts).mean()), abs=1e-5)


def test_impossible_periods() -> None:
    with pytest.raises(ValueError, match="min_period=3 and max_period=12 must satisfy"):
        DilutedRepeats(PROBLEM.module, PROBLEM.windows, 3, 12)
