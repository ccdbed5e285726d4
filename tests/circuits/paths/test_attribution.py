"""Attributions add up: components to the logit, sources to the head."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.paths import components
from circuitax.circuits.paths.components import read_out_of, token_directions
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run as run_model


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


def test_a_batch_of_texts_is_refused(make_run):
    run = make_run(1, dtype=jnp.float32)
    both = run_model(run.model, jnp.stack([run.tokens, run.tokens]), outputs=True)
    for reading in (
        lambda: components.attribute(both, run.tokens),
        lambda: components.attribute_sources(both, jnp.zeros((5, 6))),
        lambda: components.value_weighted(both),
    ):
        with pytest.raises(ValueError, match="run has 2 texts, must have one"):
            reading()
