"""The ablation identity holds, and a wrong path shows in it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import patching
from circuitax.circuits.paths import expansion
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions


def test_removing_a_head_removes_its_paths(make_run, x64):
    run = make_run(3, biases=True, norm=Norm.layernorm, positions=Positions.learned)
    found = jax.jit(patching.ablation_error)(run)
    assert found.shape == (6, 5, 7)
    np.testing.assert_allclose(found, 0, atol=1e-12)
    assert patching.ablation_error(make_run(0)).shape == (0, 5, 7)


def test_a_wrong_path_shows(make_run, x64, monkeypatch: pytest.MonkeyPatch):
    """One head's values doubled in the expansion, but not in the forward pass."""
    run, original = make_run(2), expansion.frozen_model

    def planted(run, **options):
        model = original(run, **options)
        return model._replace(W_V=model.W_V.at[0, 0].multiply(2))

    monkeypatch.setattr(expansion, "frozen_model", planted)
    error = jnp.abs(patching.ablation_error(run)).max(axis=(1, 2))
    assert error[0] > 1e-3
