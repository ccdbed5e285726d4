"""One step alone: what happens after a member has diverged."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.training.optim import OptimSpec
from circuitax.training.problem import init, new_member, step


def test_a_diverged_member_stays_so_when_later_batches_are_fine(
    quadratic: Any, scales: Any
) -> None:
    """In an ensemble the others go on, so a frozen member meets new batches."""
    optim = OptimSpec(learning_rate=0.1)
    member = new_member(jax.random.key(0), 0.1, jax.tree.map(lambda leaf: leaf[0], scales))
    once = jax.jit(partial(step, quadratic, optim))
    start = init(quadratic, optim, member)
    fine = quadratic.batch(member.data_key, jnp.zeros((), int))
    moved, _ = once(start, member, fine)
    assert moved.alive and not np.array_equal(moved.params, start.params)
    lost, _ = once(moved, member, fine.at[0, 0].set(jnp.nan))
    later, metrics = once(lost, member, fine)
    assert not lost.alive and not later.alive and jnp.isnan(metrics["loss"])
    np.testing.assert_array_equal(later.params, moved.params)
    assert int(later.step) == 1
