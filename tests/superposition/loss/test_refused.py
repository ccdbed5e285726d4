"""Arguments outside their range are refused by name instead of answered with NaN or nonsense."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.toy import pentagon_weights
from circuitax.kernel.weights import DenseLayer, DenseWeights, TiedWeights
from circuitax.superposition import enumeration, kgons, output_error
from circuitax.superposition import phase_theory as theory
from circuitax.superposition.hidden_layers import onsets
from circuitax.superposition.optimum import branch_losses, find_optimum
from circuitax.superposition.polytopes import angles, components, phase, polytopes

W = np.array([[1.0, -1.0, 0.2]])
HALF, ONE = jnp.array(0.5), jnp.array(1.0)
CELL = jnp.full((1, 3), 0.5)
BROKEN = np.array([[1.0, np.nan]])


# Past the annotations of shapes, which the test session checks before the function is called.
def optimum(density=CELL, importance=CELL, **options):
    options = {"n_hidden": 1, "n_restarts": 1} | options
    return inspect.unwrap(find_optimum)(jax.random.key(0), density, importance, **options)


def widened():
    first, second = pentagon_weights().layers
    return DenseWeights((first, DenseLayer(second.W[:, :1], second.b[:1])))


REFUSED = {
    "configuration density": (
        lambda: theory.configuration_losses(jnp.array(-0.1), ONE, 2),
        r"density=-0.1 must be in \[0, 1\]",
    ),
    "configuration importance": (
        lambda: theory.best_configuration(HALF, -ONE, 3),
        "importance=-1.0 must be at least 0",
    ),
    "lower boundary": (
        lambda: theory.lower_boundary(jnp.array([0.5, 1.5])),
        r"density\[1\]=1.5 must be in",
    ),
    "upper boundary": (lambda: theory.upper_boundary(2 * ONE, 2), "density=2.0 must be in"),
    "graph of NaN": (lambda: components(BROKEN), r"W\[0, 1\]=nan must be finite"),
    "graph of a NaN threshold": (lambda: components(W, edge=np.nan), "edge=nan must be in"),
    "polytopes": (lambda: polytopes(W, spread=-0.1), "spread=-0.1 must be at least 0"),
    "phase of NaN": (lambda: phase(BROKEN), r"W\[0, 1\]=nan must be finite"),
    "phase of no feature": (lambda: phase(W, 3), r"feature=3 must be in \[-3, 3\)"),
    "phase threshold": (lambda: phase(W, shared=-1.0), "shared=-1.0 must be above 0"),
    "enumerated lengths": (
        lambda: enumeration.enumerated_loss(W, np.zeros(3), np.zeros(1), np.ones(3)),
        r"density has shape \(1,\), must have \(3,\)",
    ),
    "enumerated density": (
        lambda: enumeration.enumerated_loss(W, np.zeros(3), np.array([0, 1, 1.1]), np.ones(3)),
        r"density\[2\]=1.1 must be in",
    ),
    "angles in three dimensions": (
        lambda: angles(np.ones((3, 2))),
        "n_hidden=3 rows",
    ),
    "gain of an error": (
        lambda: output_error.error_on(HALF, jnp.array(-0.5)),
        "gain=-0.5 must be at least 0",
    ),
    "gain of a slope": (lambda: output_error.slope_on(HALF, -ONE), "gain=-1.0 must be at least 0"),
    "gain of a mean": (
        lambda: output_error.mean_error_on(HALF, ONE, -ONE),
        "gain=-1.0 must be at least 0",
    ),
    "window": (
        lambda: output_error.curvatures(HALF, jnp.array(0.0), ONE, 4),
        "length=0.0 must be above 0",
    ),
    "frequencies": (lambda: output_error.ladder(HALF, 0), "n_terms=0 must be at least 1"),
    "density of a law": (
        lambda: output_error.sum_law(jnp.ones(2), jnp.array([0.5, 1.5]), jnp.ones(2), 3),
        r"density\[1\]=1.5 must be in",
    ),
    "optimum density": (lambda: optimum(2 * CELL + 0.5), r"density\[0, 0\]=1.5 must be in"),
    "optimum importance": (
        lambda: optimum(importance=-CELL),
        r"importance\[0, 0\]=-0.5 must be at least 0",
    ),
    "optimum shapes": (
        lambda: optimum(importance=CELL[:, :2]),
        r"importance has shape \(1, 2\), density has \(1, 3\)",
    ),
    "optimum starts": (
        lambda: optimum(starts=TiedWeights(jnp.ones((1, 2, 3)), jnp.zeros((1, 3)))),
        r"starts.W has shape \(1, 2, 3\), must have \(start, 1, 3\)",
    ),
    "optimum restarts": (lambda: optimum(n_restarts=-1), "n_restarts=-1 must be at least 0"),
    "optimum memory": (
        lambda: optimum(n_restarts=2**40),
        r"n_restarts=1099511627776 must be smaller: in 1 cells they take 1.1e\+14 bytes",
    ),
    "optimum scale": (lambda: optimum(init_scale=0.0), "init_scale=0.0 must be above 0"),
    "optimum tolerance": (
        lambda: optimum(tolerance=np.nan),
        "tolerance=nan must be finite and at least 0",
    ),
    "branches": (
        lambda: branch_losses(jnp.array([-0.5]), jnp.ones(5)),
        r"density\[0, 0\]=-0.5 must be in",
    ),
    "k-gon norm": (lambda: kgons.kgon_weights(3, 3, -1.0, 0.0), "norm=-1.0 must be at least 0"),
    "k-gon h": (lambda: kgons.kgon_potential(np.nan, 3, 3), "h=nan must be finite"),
    "onset limit": (lambda: onsets(pentagon_weights(), np.nan), "limit=nan must be finite"),
    "onset grid": (lambda: onsets(pentagon_weights(), n_grid=1), "n_grid=1 must be at least 2"),
    "onsets of another width": (lambda: onsets(widened()), "put out 1 features, must put out"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()
