"""Gradient times activation against a head turned down, and against sums of paths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.patching import head_gradients
from circuitax.circuits.paths import expansion
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import ablate_heads
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run as forward_run

FULL = {"biases": True, "norm": Norm.layernorm, "positions": Positions.learned, "mlp": True}


def test_it_is_the_slope_as_a_head_is_turned_down(make_run, x64) -> None:
    run = make_run(2, **FULL)
    found = jax.jit(lambda run, token: head_gradients(run, token, 5, position=3))(run, 2)
    logits = jax.jit(lambda run, edit: forward(run.model, run.tokens, edit)[0])
    step = 1e-5
    for layer, head in ((0, 1), (1, 0)):
        off = jnp.zeros((2, 2)).at[layer, head].set(step)
        up, down = (logits(run, ablate_heads(a))[3] for a in (-off, off))
        slope = ((up[2] - up[5]) - (down[2] - down[5])) / (2 * step)
        np.testing.assert_allclose(found[layer, head], slope, rtol=1e-7)


def test_frozen_it_is_the_sum_of_all_paths_through_a_head(make_run, x64) -> None:
    run = make_run(3, **FULL)
    frozen = frozen_model(run, mlps="sources")  # what MLPs wrote is held
    w = (frozen.read_out.W_U[:, 2] - frozen.read_out.W_U[:, 5]) / frozen.read_out.scale[-1]
    values = np.asarray(expansion.path_streams(frozen)[:, -1] @ w)
    each = jax.jit(head_gradients, static_argnames=("frozen", "position"))
    found = each(run, 2, 5, frozen=True)
    expected = np.zeros((3, 2))
    for path, value in zip(expansion.all_paths(3, 2), values, strict=True):
        for head in path:
            expected[head] += value
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert abs(each(run, 2, 5) - found).max() > 1e-3  # the real model reacts


def test_what_mlps_wrote_is_needed_to_hold_it(make_run) -> None:
    run = make_run(1, mlp=True, dtype=jnp.float32)
    bare = forward_run(run.model, run.tokens)
    with pytest.raises(ValueError, match="mlp_outputs is None: make the run with outputs=True"):
        head_gradients(bare, 1, 2, frozen=True)
