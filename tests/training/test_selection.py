"""Best of N by hand cases, with ties, diverged restarts and empty cells."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.training.ensemble import RULE, as_cells, best_of, divergence, take

NAN, INF = jnp.nan, jnp.inf


def test_lowest_finite_loss_wins_ties_to_the_lower_index() -> None:
    losses = jnp.array([[3.0, 1.0, 2.0], [2.0, 1.0, 1.0], [NAN, 5.0, -INF], [0.0, 4.0, 9.0]])
    alive = jnp.array([[True] * 3, [True] * 3, [True] * 3, [False, True, True]])
    best = best_of(losses, alive)
    assert best.restart.tolist() == [1, 1, 1, 1]
    assert best.loss.tolist() == [1.0, 1.0, 5.0, 4.0]
    assert best.n_alive.tolist() == [3, 3, 1, 2]
    assert "ties go to the lower index" in RULE


def test_a_cell_without_a_finite_restart_is_reported_not_chosen() -> None:
    best = best_of(jnp.array([[NAN, 1.0], [2.0, 1.0]]), jnp.array([[True, False], [True, True]]))
    assert best.restart.tolist() == [-1, 1]
    assert best.n_alive.tolist() == [0, 2]
    chosen = take(jnp.arange(12.0).reshape(2, 2, 3), best.restart)
    assert np.isnan(chosen[0]).all()
    assert chosen[1].tolist() == [9.0, 10.0, 11.0]


def test_take_from_every_leaf_of_a_tree_of_cells() -> None:
    restart = jnp.array([[0, 2], [1, 1]])
    W = jnp.arange(2 * 2 * 3 * 4.0).reshape(2, 2, 3, 4)
    loss = jnp.arange(12.0).reshape(2, 2, 3)
    chosen = take({"W": W, "loss": loss}, restart)
    for i, j in np.ndindex(2, 2):
        np.testing.assert_array_equal(chosen["W"][i, j], W[i, j, restart[i, j]])
        assert chosen["loss"][i, j] == loss[i, j, restart[i, j]]


def test_cells_are_row_major_and_restarts_vary_fastest() -> None:
    cells = as_cells({"x": jnp.arange(12), "y": jnp.zeros((12, 5))}, 2, 3)
    assert cells["x"][1, 2].tolist() == [10, 11]
    assert cells["y"].shape == (2, 3, 2, 5)


def test_divergence_says_which_and_when() -> None:
    report = divergence(jnp.array([True, False, True, False]), jnp.array([9, 3, 9, 0]))
    assert report == {"members": 4, "diverged": 2, "after_steps": {"1": 3, "3": 0}}


def test_best_of_is_jittable_and_takes_one_cell() -> None:
    best = jax.jit(best_of)(jnp.array([2.0, 1.0]), jnp.array([True, True]))
    assert int(best.restart) == 1 and float(best.loss) == 1.0


def test_errors_name_the_argument() -> None:
    with pytest.raises(ValueError, match="losses has no restart"):
        best_of(jnp.zeros((2, 0)), jnp.zeros((2, 0), bool))
    with pytest.raises(ValueError, match=r"cell=\(5,\) must divide the number of members, 12"):
        as_cells(jnp.zeros(12), 5)
