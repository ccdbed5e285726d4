import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.superposition.optimum import perturbed_branches


def test_branches_of_a_perturbed_feature_change_order_near_the_ratio_of_E18():
    with jax.enable_x64(True):
        density, ratio = jnp.array([0.05, 0.05, 0.05]), jnp.array([0.26, 0.28, 1.0])
        loss, norm, weights = jax.tree.map(np.asarray, perturbed_branches(density, ratio))
    assert (loss.digons < loss.pentagon).tolist() == [True, False, False]
    assert loss.pentagon[2] == pytest.approx(0.00890, abs=6e-6)  # equal features, reference page
    assert loss.digons[2] == pytest.approx(0.01771, abs=6e-6)
    assert (norm.digons < 0.01).all() and (norm.pentagon > 1).all()
    assert weights.W.shape == (3, 2, 2, 5)


def test_a_ratio_beyond_the_densities_is_refused():
    with pytest.raises(ValueError, match=r"density.* must be in \[0, 1\]"):
        perturbed_branches(jnp.array([0.5]), jnp.array([4.0]))
