"""Components of a full pre-LN transformer sum to its logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.paths import components
from circuitax.kernel.mlp import Activation
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run as run_model


@pytest.mark.parametrize("n_extra", [0, 1])
@pytest.mark.parametrize("activation", [Activation.gelu, Activation.relu])
def test_components_close_to_the_logits(activation, n_extra, make_run, x64):
    run = make_run(
        3,
        biases=True,
        norm=Norm.layernorm,
        positions=Positions.learned,
        mlp=True,
        n_extra=n_extra,
        activation=activation,
    )
    parts = components.components_of(run)
    np.testing.assert_allclose(components.stacked(parts).sum(0), run.trace.streams[-1], atol=1e-12)
    found = jax.jit(components.component_logits)(run)
    np.testing.assert_allclose(found.remainder, 0, atol=1e-12)
    names = components.component_names(parts)
    assert names[:3] == ("tokens", "positions", "head 0.0")
    assert names[-4:] == ("mlp 2", "b_O 0", "b_O 1", "b_O 2")
    assert len(names) == components.stacked(parts).shape[0] == 2 + 6 + 3 + 3


def test_components_by_hand(make_run, x64):
    """One head and the MLP, recomputed in NumPy from the stream they read."""
    run = make_run(1, norm=Norm.layernorm_pre, mlp=True, activation=Activation.relu)
    parts = components.components_of(run)
    heads, mlp = run.model.blocks.attention, run.model.blocks.mlp

    def normed(x):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + run.model.spec.norm_eps)

    x = np.asarray(run.trace.streams[0])
    head = np.asarray(run.trace.patterns[0, 1]) @ normed(x) @ heads.W_V[0, 1] @ heads.W_O[0, 1]
    np.testing.assert_allclose(parts.heads[0, 1], head, atol=1e-12)
    middle = x + np.asarray(parts.heads[0]).sum(0)
    written = np.maximum(normed(middle) @ mlp.W_in[0], 0) @ mlp.W_out[0]
    np.testing.assert_allclose(parts.mlps[0], written, atol=1e-12)
    logits = components.component_logits(run)
    final = np.asarray(run.trace.streams[-1])
    sigma = np.sqrt(
        ((final - final.mean(-1, keepdims=True)) ** 2).mean(-1) + run.model.spec.norm_eps
    )
    centred = (written - written.mean(-1, keepdims=True)) / sigma[:, None]
    np.testing.assert_allclose(logits.parts.mlps[0], centred @ run.model.W_U, atol=1e-12)


def test_a_trace_without_outputs_is_refused(make_run):
    run = make_run(1, dtype=jnp.float32)
    for reading in (components.components_of, components.component_logits):
        with pytest.raises(ValueError, match=r"make the run with outputs=True"):
            reading(run_model(run.model, run.tokens))


def test_a_batch_of_texts_is_refused(make_run):
    run = make_run(1, dtype=jnp.float32)
    both = run_model(run.model, jnp.stack([run.tokens, run.tokens]), outputs=True)
    with pytest.raises(ValueError, match="run has 2 texts, must have one"):
        components.components_of(both)
