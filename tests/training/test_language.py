import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.data.synthetic import RepeatedSource
from circuitax.data.windows import WindowSource
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import at_index
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.parameters import model_from_params, params_from_model
from circuitax.models.transformer import Transformer
from circuitax.models.transformer import init as init_model
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken, StreamedNextToken, stream, text_losses
from circuitax.training.optim import Optimizer, OptimSpec
from circuitax.training.problem import Problem

SPEC = TransformerSpec(d_vocab=9, n_ctx=12, n_layers=1, n_heads=2, d_model=8)
MODEL = Transformer(SPEC)
SOURCE = RepeatedSource(batch=4, length=12, d_vocab=9, min_period=3, max_period=6)
PROBLEM = NextToken(MODEL, SOURCE)


def test_is_a_problem_equal_by_its_specs() -> None:
    assert isinstance(PROBLEM, Problem)
    again = NextToken(Transformer(SPEC.replace()), dataclasses.replace(SOURCE))
    assert again == PROBLEM and hash(again) == hash(PROBLEM)


def test_batch_is_a_function_of_key_and_step() -> None:
    key = jax.random.key(1)
    batch = PROBLEM.batch(key, jnp.array(3))
    np.testing.assert_array_equal(batch, SOURCE(at_index(key, 3)))
    assert not np.array_equal(batch, PROBLEM.batch(key, jnp.array(4)))


def test_loss_is_the_mean_over_all_next_tokens() -> None:
    params = PROBLEM.init(jax.random.key(2), ())
    model = model_from_params(params, SPEC)
    texts = SOURCE(jax.random.key(3))
    by_hand = []
    for text in np.asarray(texts):
        logits = np.asarray(forward(model, text)[0], float)
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        by_hand.append([-np.log(probs[t, text[t + 1]]) for t in range(11)])
    losses = text_losses(model, texts)
    np.testing.assert_allclose(losses, by_hand, rtol=2e-5)
    assert float(PROBLEM.loss(params, texts, ())) == pytest.approx(np.mean(by_hand), rel=1e-5)


def test_training_puts_the_start_token_in_front() -> None:
    text = np.random.default_rng(0).integers(0, 8, 60)
    model = Transformer(SPEC.replace(start_token=8))
    key, step = jax.random.key(1), jnp.array(3)
    on_device = NextToken(model, WindowSource(4, 12, jnp.asarray(text)))
    batch = on_device.batch(key, step)
    plain = WindowSource(4, 12, jnp.asarray(text))(at_index(key, 3))
    np.testing.assert_array_equal(batch[:, 0], 8)
    np.testing.assert_array_equal(batch[:, 1:], plain[:, :-1])
    weights = on_device.init(jax.random.key(2), ())
    expected = on_device.loss(weights, batch, ())
    assert float(expected) != pytest.approx(float(PROBLEM.loss(weights, plain, ())), rel=1e-3)
    streamed = StreamedNextToken(model, 12, 2)
    chunk = jnp.stack([plain[::-1], plain])
    np.testing.assert_allclose(streamed.loss(weights, jnp.array(1), chunk), expected, rtol=1e-6)


def test_an_ensemble_learns_that_texts_repeat() -> None:
    optim = OptimSpec(Optimizer.adam, learning_rate=1e-2, weight_decay=0.0, steps=60)
    plan = Plan(PROBLEM, optim, chunk=30)
    members = new_members(jax.random.key(0), 1e-2, jnp.zeros(2))
    state, train = init(plan, members), advance(plan, members)
    state, first = train(state)
    state, second = train(state)
    assert (np.asarray(second["loss"]) < np.asarray(first["loss"])).all()
    assert not np.allclose(state.params["W_E"][0], state.params["W_E"][1])


def test_parameters_have_the_precision_of_the_run(x64: None) -> None:
    single = params_from_model(init_model(jax.random.key(0), SPEC, jnp.float32))
    for problem in (PROBLEM, StreamedNextToken(MODEL, 12, 2)):
        with jax.enable_x64(False):
            now = problem.init(jax.random.key(0), ())
        jax.tree.map(np.testing.assert_array_equal, now, single)
        assert {leaf.dtype for leaf in jax.tree.leaves(now)} == {np.dtype("float32")}
        double = problem.init(jax.random.key(0), ())
        assert {leaf.dtype for leaf in jax.tree.leaves(double)} == {np.dtype("float64")}
    members = new_members(jax.random.key(0), 1e-2, jnp.zeros(2))
    plan = Plan(PROBLEM, OptimSpec(steps=2), chunk=2)
    state, metrics = advance(plan, members)(init(plan, members))
    assert metrics["loss"].dtype == np.float64
    assert {leaf.dtype for leaf in jax.tree.leaves(state.params)} == {np.dtype("float64")}


def test_streamed_from_disk_equals_drawn_on_device() -> None:
    text = np.random.default_rng(0).integers(0, 9, 300).astype(np.uint16)
    optim = OptimSpec(Optimizer.adam, learning_rate=1e-2, weight_decay=0.0, steps=6)
    source = WindowSource(4, 12, jnp.asarray(text))
    on_device = Plan(NextToken(MODEL, source), optim, chunk=3)
    on_disk = Plan(StreamedNextToken(MODEL, 12, 3), optim, chunk=3)
    members = new_members(jax.random.key(0), 1e-2, jnp.zeros(2))
    states = [init(on_device, members), init(on_disk, members)]
    both = advance(on_device, members), stream(on_disk, members, text, 4)
    for _ in range(2):
        states = [train(state)[0] for train, state in zip(both, states, strict=True)]
    for ours, theirs in zip(*map(jax.tree.leaves, states), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"plan.chunk=2 must equal plan.problem.chunk=3"):
        stream(dataclasses.replace(on_disk, chunk=2), members, text, 4)


def test_streams_begin_at_any_step() -> None:
    text = np.random.default_rng(0).integers(0, 9, 300).astype(np.uint16)
    optim = OptimSpec(Optimizer.adam, learning_rate=1e-2, weight_decay=0.0, steps=8)
    on_device = Plan(NextToken(MODEL, WindowSource(4, 12, jnp.asarray(text))), optim, chunk=2)
    members = new_members(jax.random.key(0), 1e-2, jnp.zeros(2))
    # Two steps, then chunks of three, the second from step 5.
    ours, theirs = (advance(on_device, members)(init(on_device, members))[0] for _ in range(2))
    on_device = dataclasses.replace(on_device, chunk=3)
    on_disk = Plan(StreamedNextToken(MODEL, 12, 3), optim, chunk=3)
    for _ in range(2):
        ours, read = stream(on_disk, members, text, 4)(ours)
        theirs, drawn = advance(on_device, members)(theirs)
        np.testing.assert_allclose(read["loss"], drawn["loss"], rtol=1e-5)
    assert ours.step.tolist() == [8, 8]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), ours, theirs)
