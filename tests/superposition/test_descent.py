"""BFGS of many small problems at once."""

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.superposition.descent import begin, minimise


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@jax.jit
def run(start, max_evaluations):
    def one(x):
        return minimise(jax.value_and_grad(rosenbrock), begin(x), max_evaluations=max_evaluations)

    return jax.vmap(one)(start)


def test_batch_of_rosenbrock_valleys_reaches_the_minimum(x64, rng):
    start = jnp.asarray(rng.normal(size=(16, 3)))
    end = run(start, 400)
    assert end.done.all()
    np.testing.assert_allclose(end.x, 1, atol=1e-7)
    assert int(end.n_evaluations.max()) < 250


def test_resumed_states_continue_as_if_never_stopped(x64, rng):
    start = jnp.asarray(rng.normal(size=3))

    @jax.jit
    def advance(state, limit):
        return minimise(jax.value_and_grad(rosenbrock), state, max_evaluations=limit)

    halfway = advance(begin(start), 17)
    assert int(halfway.n_evaluations) == 17 and not halfway.done
    np.testing.assert_array_equal(advance(halfway, 400).x, advance(begin(start), 400).x)


def test_start_at_the_minimum_takes_one_evaluation(x64):
    end = run(jnp.ones((1, 3)), 400)
    assert end.done.all() and int(end.n_evaluations[0]) == 1


def test_negative_curvature_is_left(x64):
    """cos starts next to its maximum, where the secant condition cannot hold."""
    run_cosine = jax.jit(
        lambda x: minimise(
            jax.value_and_grad(lambda y: jnp.sum(jnp.cos(y))), begin(x), max_evaluations=100
        )
    )
    end = run_cosine(jnp.array([0.01, -0.3]))
    np.testing.assert_allclose(jnp.cos(end.x), -1, atol=1e-12)
