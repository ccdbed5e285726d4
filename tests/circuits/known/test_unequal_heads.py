"""Heads of unequal strength: what is scaled, by how much, and what stays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import known
from circuitax.circuits.known import frozen_unequal
from circuitax.kernel.keys import derive
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init


def test_each_head_writes_its_own_multiple(make_run) -> None:
    model = make_run(3, n_heads=40).model
    found = known(jax.random.key(1), model, 1.5)
    ratio = np.asarray(found.blocks.attention.W_O / model.blocks.attention.W_O)
    logs = np.log(ratio).reshape(3, 40, -1)
    np.testing.assert_allclose(np.ptp(logs, axis=-1), 0, atol=1e-5)
    # 120 draws: the standard error of their deviation is 0.1.
    assert abs(logs[..., 0].std() - 1.5) < 0.4 and abs(logs.mean()) < 0.5
    for name in ("W_Q", "W_K", "W_V"):
        before, after = (getattr(m.blocks.attention, name) for m in (model, found))
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(found.W_U, model.W_U)


def test_no_tail_leaves_the_model_as_it_is(make_run) -> None:
    model = make_run(2).model
    found = known(jax.random.key(1), model, 0.0)
    np.testing.assert_array_equal(found.blocks.attention.W_O, model.blocks.attention.W_O)
    with pytest.raises(ValueError, match=r"tail=-1\.0 must be at least 0"):
        known(jax.random.key(1), model, -1.0)


def test_numbers_keep_their_type_and_an_ensemble_is_refused(make_run, x64) -> None:
    model = make_run(2, dtype=np.float32).model
    assert known(jax.random.key(1), model, 1.0).blocks.attention.W_O.dtype == np.float32
    both = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), model)
    with pytest.raises(ValueError, match=r"leading axis of members, \(2,\)"):
        known(jax.random.key(1), both, 1.0)


def test_it_is_frozen_on_a_text_of_its_length() -> None:
    key, strength = jax.random.key(2), jax.random.key(3)
    sizes = TransformerSpec(d_vocab=5, n_ctx=7, n_layers=2, n_heads=3, d_model=12)
    found = frozen_unequal(key, strength, sizes, 1.0)
    whole = known(strength, init(derive(key, "weights"), sizes), 1.0)
    np.testing.assert_allclose(found.W_O, whole.blocks.attention.W_O, rtol=1e-6)
    assert found.A.shape == (2, 3, 7, 7)
    unbounded = sizes.replace(n_ctx=None, positions="rotary")
    with pytest.raises(ValueError, match=r"sizes\.n_ctx=None must be a number"):
        frozen_unequal(key, strength, unbounded, 1.0)
