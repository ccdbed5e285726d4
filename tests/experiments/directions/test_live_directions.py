"""Overlaps of the live rows of a dictionary, against the same of an array of these rows alone."""

import jax
import jax.numpy as jnp
import numpy as np

from experiments.directions.text_superposition.live_directions import (
    centred_live,
    live_dimensionality,
    live_overlaps,
)


def test_dead_rows_count_nowhere(rng: np.random.Generator) -> None:
    sets = rng.normal(size=(2, 9, 4)) + 0.5
    live = np.array([[1, 1, 0, 1, 1, 1, 0, 1, 1], [1] * 9], bool)
    bounds = np.array([0.0, 0.3, 0.9])
    with jax.enable_x64(True):
        rows, mask = jnp.asarray(sets), jnp.asarray(live)
        found = jax.jit(jax.vmap(live_overlaps, (0, 0, None)))(rows, mask, jnp.asarray(bounds))
        dims = np.asarray(jax.vmap(live_dimensionality)(rows, mask))
        centred = np.asarray(jax.vmap(centred_live)(rows, mask))
    for i, (one, kept) in enumerate(zip(sets, live, strict=True)):
        x = one[kept]
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        g = (unit @ unit.T)[np.triu_indices(len(x), 1)]
        for name, expected in (
            ("mean", g.mean()),
            ("mean_square", (g**2).mean()),
            ("largest", abs(g).max()),
            ("above", (abs(g)[:, None] > bounds).mean(axis=0)),
        ):
            np.testing.assert_allclose(getattr(found, name)[i], expected, rtol=1e-12)
        wanted = (x**2).sum(axis=1) / ((unit @ x.T) ** 2).sum(axis=1)
        np.testing.assert_allclose(dims[i][kept], wanted, rtol=1e-12)
        assert np.isnan(dims[i][~kept]).all()
        np.testing.assert_allclose(centred[i][kept], x - x.mean(axis=0), atol=1e-12)
        assert not centred[i][~kept].any()


def test_a_pair_is_needed() -> None:
    rows, live = jnp.eye(3), jnp.array([True, False, False])
    found = live_overlaps(rows, live, jnp.array([0.5]))
    assert all(np.isnan(np.asarray(x)).all() for x in found)
