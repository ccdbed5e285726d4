"""Readings of weights and of runs on a model whose circuit is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.known import copying_model, induction_model
from experiments.induction.shared.weight_readings import weight_readings
from experiments.induction.two_layer_circuits.text_readings import text_readings


@pytest.fixture(scope="module")
def known() -> dict[str, np.ndarray]:
    """Everything measured of the hand-made induction model on random tokens, repeated."""
    model = induction_model(jax.random.key(0), 12, 16, n_distractors=1)
    block = np.stack([np.random.default_rng(i).permutation(12)[:6] for i in range(3)])
    texts = jnp.asarray(np.tile(block, (1, 3))[:, :16])
    found = jax.jit(text_readings, static_argnames="late")(model, texts, late=7)
    return {name: np.asarray(x) for name, x in (found | weight_readings(model)).items()}


def test_runs_name_the_known_heads(known: dict[str, np.ndarray]) -> None:
    assert known["previous"][0, 0] > 0.9 and known["prefix"][1, 0] > 0.9
    # The first token of a text marks itself, having no predecessor, and is as good a match.
    assert known["stripes"][1, 0] > 0.85 > known["stripes"][0].max() + 0.5
    assert known["top_is_match"][1, 0] > 0.85
    assert 0.85 * 8 * 11 / 12 < known["raises"][1, 0] < 8 * 11 / 12  # 8, less the mean's
    assert np.abs(known["raises"][0]).max() < 0.5
    assert known["identity"] < 1e-5
    assert known["ablated"][0, 0] - known["loss"] > 1 > known["ablated_preserving"][0, 0]
    # The known head finds its match by keys that head 0.0 wrote, and by nothing else.
    whole, no_q, no_k, neither = known["score_loss"]
    np.testing.assert_allclose([whole, no_q], known["loss"], atol=0.05)
    assert no_k - whole > 1 and neither - whole > 1
    np.testing.assert_allclose(known["order_loss"][-1], known["loss"], atol=1e-5)
    np.testing.assert_allclose(known["loss_by_position"][6:].mean(), known["loss"], rtol=1e-6)


def test_weights_name_the_known_heads(known: dict[str, np.ndarray]) -> None:
    """K-composition of head 0.0 with head 1.0, which copies and matches tokens."""
    z = known["composition_z"]
    assert np.unravel_index(z.argmax(), z.shape) == (1, 0, 0) and z[1, 0, 0] > 10
    assert (known["composition"] <= known["composition_most"] * (1 + 1e-5)).all()
    assert known["copying"][1, 0] > 0.99 > known["copying"][1, 1]
    assert known["matching"].argmax() == 0 and known["matching"][0, 0] > 0.99


def test_other_models_are_refused() -> None:
    one_layer = copying_model(12, 1.0)
    with pytest.raises(ValueError, match="n_layers=1, must have 2"):
        weight_readings(one_layer)
    with pytest.raises(ValueError, match="n_layers=1, must have at least 2"):
        text_readings(one_layer, jnp.zeros((1, 8), int), 3)
    with pytest.raises(ValueError, match="late=8 must be from 1 to 7"):
        text_readings(one_layer, jnp.zeros((1, 8), int), 8)
