"""Problems side by side are trained as each of them alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.models.autoencoder import Autoencoder, Sparsity
from circuitax.training import ensemble
from circuitax.training.dictionary import DictionaryHyper, DictionaryLearning
from circuitax.training.ensemble import Plan, new_members
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import SideBySide, TrainState

KINDS = (Sparsity.relu, Sparsity.jumprelu, Sparsity.matryoshka)
ALONE = tuple(
    DictionaryLearning(Autoencoder(kind, 4, 3), n_true=4, batch_size=16) for kind in KINDS
)
MEMBERS = 2


def hyper(penalty: float) -> DictionaryHyper:
    directions = np.random.default_rng(0).normal(size=(MEMBERS, 4, 3))
    same = jnp.full(MEMBERS, 0.3)
    return DictionaryHyper(jnp.asarray(directions, jnp.float32), same, same, penalty * same)


def trained(problem, numbers) -> tuple[TrainState, dict]:
    members = new_members(jax.random.key(0), 1e-2, numbers)
    plan = Plan(problem, OptimSpec(steps=20), chunk=20)
    return ensemble.advance(plan, members)(ensemble.init(plan, members))


def test_each_is_trained_as_if_it_were_alone() -> None:
    own = tuple(hyper(penalty) for penalty in (0.1, 0.2, 0.3))
    together, metrics = trained(SideBySide(ALONE), own)
    alone = [trained(problem, numbers) for problem, numbers in zip(ALONE, own, strict=True)]
    for params, (state, _) in zip(together.params, alone, strict=True):
        for name, value in state.params.items():
            np.testing.assert_allclose(params[name], value, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(metrics["loss"], sum(m["loss"] for _, m in alone), rtol=1e-5)
    # The parameters moved, and not alike.
    first, last = (np.asarray(together.params[i]["D"]) for i in (0, 2))
    assert np.abs(first - last).max() > 1e-3


def test_one_that_diverges_stops_its_member_and_no_other() -> None:
    own = tuple(hyper(0.1) for _ in KINDS)
    bad = own[1]._replace(strength=jnp.array([jnp.nan, 0.1]))
    state, _ = trained(SideBySide(ALONE), (own[0], bad, own[2]))
    assert state.alive.tolist() == [False, True]
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))


def test_side_by_side_needs_a_problem() -> None:
    with pytest.raises(ValueError, match=r"problems=\(\) must have at least one"):
        SideBySide(())
