"""Components close to the logits; attribution closes to their difference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.paths import components
from circuitax.circuits.paths.components import read_out_of, token_directions
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
    begun = np.asarray(found.parts.tokens + found.parts.positions) + np.asarray(found.bias)
    last = run.trace.streams[-1] - run.trace.streams[2]  # what layer 2 added
    added = components.logits_of(last, read_out_of(run))
    np.testing.assert_allclose(found.by_layer[2], added, atol=1e-12)
    np.testing.assert_allclose(begun + found.by_layer.sum(axis=0), run.logits, atol=1e-12)
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


def _run(make_run, **options):
    run = make_run(2, biases=True, norm=Norm.layernorm, positions=Positions.learned, **options)
    return run, read_out_of(run)


def test_attribution_closes_to_the_logit_difference(make_run, x64):
    run, _ = _run(make_run, mlp=True)
    chosen, against = jnp.roll(run.tokens, -1), jnp.full(5, 2)
    found = jax.jit(components.attribute)(run, chosen, against)
    np.testing.assert_allclose(found.remainder, 0, atol=1e-12)
    rows = np.arange(5)
    lead = run.logits[rows, chosen] - run.logits[rows, against]
    total = components.stacked(found.parts).sum(0) + found.bias
    np.testing.assert_allclose(total, lead, atol=1e-12)
    alone = jax.jit(components.attribute)(run, chosen)
    np.testing.assert_allclose(alone.remainder, 0, atol=1e-12)
    read = components.component_logits(run).parts
    np.testing.assert_allclose(alone.parts.heads[1, 0], read.heads[1, 0][rows, chosen], atol=1e-12)


def test_over_the_mean_token_every_part_is_counted_from_its_mean(make_run, x64):
    run, _ = _run(make_run, mlp=True)
    chosen = jnp.roll(run.tokens, -1)
    centred = components.over_mean_token(run)
    found = jax.jit(components.attribute)(centred, chosen)
    np.testing.assert_allclose(found.remainder, 0, atol=1e-12)
    read = np.asarray(components.component_logits(run).parts.heads[1, 0])
    expected = read[np.arange(5), chosen] - read.mean(axis=1)
    np.testing.assert_allclose(found.parts.heads[1, 0], expected, atol=1e-12)
    np.testing.assert_allclose(centred.logits.mean(axis=-1), 0, atol=1e-12)
    again = run_model(centred.model, run.tokens)
    np.testing.assert_allclose(again.logits, centred.logits, atol=1e-12)


def test_sources_add_up_to_the_head(make_run, x64):
    run, read_out = _run(make_run)
    chosen = jnp.roll(run.tokens, -1)
    directions = token_directions(read_out, chosen)
    found = components.attribute_sources(run, directions)
    whole = components.attribute(run, chosen)
    np.testing.assert_allclose(found.sum(-1), whole.parts.heads, atol=1e-12)
    np.testing.assert_allclose(np.triu(found, 1), 0, atol=1e-12)


def test_value_weighted_patterns_by_hand(make_run, x64):
    run = make_run(1)
    found = components.value_weighted(run)
    heads, x = run.model.blocks.attention, np.asarray(run.trace.streams[0])
    written = x @ heads.W_V[0, 1] @ heads.W_O[0, 1]
    expected = np.asarray(run.trace.patterns[0, 1]) * np.linalg.norm(written, axis=1)[None]
    np.testing.assert_allclose(found[0, 1], expected, atol=1e-12)
