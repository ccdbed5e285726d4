"""The toy problem: its loss is NumPy's, its features have the right law."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.mlp import Activation
from circuitax.kernel.toy import dense_forward, tied_forward
from circuitax.kernel.weights import TiedWeights
from circuitax.models.toy import ToyKind, ToySpec
from circuitax.superposition.expected_loss import Convention
from circuitax.training import ensemble
from circuitax.training.ensemble import Plan, new_members
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import fresh_losses
from circuitax.training.toy import (
    Features,
    Target,
    ToyHyper,
    ToyProblem,
    tied_columns,
    weighted_squared_error,
)


def test_hand_case() -> None:
    target, output = jnp.array([[1.0, 2.0], [0.0, 1.0]]), jnp.array([[0.0, 0.0], [0.0, 4.0]])
    importance = jnp.array([1.0, 0.5])
    # Sample 1: 1 + 0.5 * 4 = 3; sample 2: 0 + 0.5 * 9 = 4.5.
    assert float(weighted_squared_error(target, output, importance, "sum")) == 3.75
    assert float(weighted_squared_error(target, output, importance, Convention.mean)) == 1.875


def test_E17_sum_and_mean_differ_by_the_number_of_features(
    x64: None, rng: np.random.Generator
) -> None:
    target, output = rng.normal(size=(2, 3, 7, 5))
    importance = rng.uniform(size=5)
    total = np.einsum("abi,i->ab", (target - output) ** 2, importance).mean()
    args = jnp.array(target), jnp.array(output), jnp.array(importance)
    np.testing.assert_allclose(weighted_squared_error(*args, Convention.sum), total, rtol=1e-12)
    np.testing.assert_allclose(
        weighted_squared_error(*args, Convention.mean), total / 5, rtol=1e-12
    )


def test_E17_importance_is_outside_the_square(x64: None) -> None:
    target, output, importance = jnp.array([2.0]), jnp.array([0.0]), jnp.array([3.0])
    got = float(weighted_squared_error(target, output, importance, "sum"))
    assert got == 3 * 2**2
    assert got != (3 * 2) ** 2  # the paper's other formula


def hyper(n: int = 5, density: float = 0.3) -> ToyHyper:
    return ToyHyper(jnp.full(n, density), 0.9 ** jnp.arange(n))


@pytest.mark.parametrize("output", [Activation.relu, Activation.linear])
@pytest.mark.parametrize("hidden_relu", [False, True])
def test_columns_are_the_kernels_forward_transposed(
    output: Activation, hidden_relu: bool, x64: None, rng: np.random.Generator
) -> None:
    weights = TiedWeights(jnp.array(rng.normal(size=(3, 5))), jnp.array(rng.normal(size=5)))
    x = jnp.array(rng.normal(size=(5, 7)))
    rows = tied_forward(weights, x.T, output, hidden_relu=hidden_relu)
    columns = tied_columns(weights, x, output, hidden_relu=hidden_relu)
    np.testing.assert_allclose(columns, rows.T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", list(ToyKind))
@pytest.mark.parametrize("convention", list(Convention))
def test_loss_is_numpys(
    kind: ToyKind, convention: Convention, x64: None, rng: np.random.Generator
) -> None:
    problem = ToyProblem(ToySpec(5, 2, kind), 16, convention)
    params = problem.init(jax.random.key(0), hyper())
    params = jax.tree.map(lambda w: w + 0.1, params)
    u = rng.uniform(size=(5, 16))
    x = np.where(u < 0.3, u / 0.3, 0.0).T
    if kind is ToyKind.dense:
        out = dense_forward(params, jnp.array(x))[0]
    else:
        out = tied_forward(params, jnp.array(x), hidden_relu=kind is ToyKind.privileged)
    error = ((x - np.asarray(out)) ** 2 @ np.asarray(hyper().importance)).mean()
    expected = error / 5 if convention is Convention.mean else error
    np.testing.assert_allclose(problem.loss(params, jnp.array(u), hyper()), expected, rtol=1e-12)


def test_absolute_target_is_met_by_two_neurons_a_feature() -> None:
    # |x| = relu(x) + relu(-x), by hand: the loss is 0, and the identity's is not.
    spec = ToySpec(1, 2, ToyKind.dense)
    problem = ToyProblem(spec, 32, target=Target.absolute)
    params = problem.init(jax.random.key(0), hyper(1))
    first, second = params.layers
    exact = params._replace(
        layers=(
            first._replace(W=jnp.array([[1.0, -1.0]])),
            second._replace(W=jnp.array([[1.0], [1.0]])),
        )
    )
    batch = problem.batch(jax.random.key(1), jnp.array(0))
    assert float(problem.loss(exact, batch, hyper(1))) == pytest.approx(0, abs=1e-12)
    identity = ToyProblem(spec, 32)
    assert float(identity.loss(exact, batch, hyper(1))) == pytest.approx(0, abs=1e-12)
    one_sided = exact._replace(layers=(first._replace(W=jnp.array([[1.0, 0.0]])), exact.layers[1]))
    assert float(problem.loss(one_sided, batch, hyper(1))) > 0.01
    assert float(identity.loss(one_sided, batch, hyper(1))) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("features", [Features.correlated, Features.anticorrelated])
def test_features_in_sets_keep_their_sets(features: Features) -> None:
    problem = ToyProblem(ToySpec(6, 2), 256, features=features, set_size=2)
    key = problem.batch(jax.random.key(0), jnp.array(3))
    x = problem._columns(key, jnp.full(3, 0.5))
    on = np.asarray(x > 0).reshape(3, 2, 256).sum(axis=1)
    assert set(np.unique(on)) == ({0, 2} if features is Features.correlated else {0, 1})
    other = problem._columns(problem.batch(jax.random.key(0), jnp.array(4)), jnp.full(3, 0.5))
    assert not (x == other).all()
    params = problem.init(jax.random.key(0), hyper(6))
    loss = problem.loss(params, key, ToyHyper(jnp.full(3, 0.5), jnp.ones(6)))
    out = tied_forward(params, x.T)
    np.testing.assert_allclose(loss, ((x.T - out) ** 2).sum(axis=1).mean(), rtol=1e-5)


def trained(n_steps: int = 60) -> Any:
    # Density 1 for the first member, 0.1 for the second.
    problem = ToyProblem(ToySpec(4, 2), 64)
    both = ToyHyper(jnp.array([[1.0] * 4, [0.1] * 4]), jnp.ones((2, 4)))
    members = new_members(jax.random.key(0), 0.03, both, common=2)
    plan = Plan(problem, OptimSpec(), chunk=n_steps, common=2)
    start = ensemble.init(plan, members)
    before = fresh_losses(problem, start.params, both, jax.random.key(9), 4)
    state, _ = ensemble.advance(plan, members)(start)
    return problem, both, state, before


def test_training_lowers_the_loss_on_fresh_batches() -> None:
    problem, both, state, before = trained()
    after = fresh_losses(problem, state.params, both, jax.random.key(9), 4)
    assert after.shape == (4, 2)
    assert (after.mean(axis=0) < 0.7 * before.mean(axis=0)).all()
    # One member's loss on one batch, by hand: the batches are common and follow from the key.
    one = jax.tree.map(lambda leaf: leaf[1], (state.params, both))
    by_hand = problem.loss(one[0], problem.batch(jax.random.key(9), jnp.array(2)), one[1])
    np.testing.assert_allclose(after[2, 1], by_hand, rtol=1e-6)
    with pytest.raises(ValueError, match="n_batches=0 must be at least 1"):
        fresh_losses(problem, state.params, both, jax.random.key(9), 0)
