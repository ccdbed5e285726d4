"""Language models, of one's own too: losses by hand, streams from disk, resuming."""

import dataclasses
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.data.synthetic import RepeatedSource
from circuitax.data.text import WindowSource
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.keys import at_index
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.parameters import model_from_params, params_from_model
from circuitax.models.transformer import Transformer
from circuitax.models.transformer import init as init_model
from circuitax.training import ensemble
from circuitax.training.checkpoints import Checkpoints
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import (
    LanguageModule,
    NextToken,
    Step,
    StreamedNextToken,
    stream,
    text_losses,
    train_on_text,
)
from circuitax.training.optim import Optimizer, OptimSpec

SPEC = TransformerSpec(d_vocab=9, n_ctx=12, n_layers=1, n_heads=2, d_model=8)
MODEL = Transformer(SPEC)
SOURCE = RepeatedSource(batch=4, length=12, d_vocab=9, min_period=3, max_period=6)
PROBLEM = NextToken(MODEL, SOURCE)


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


TEXT = np.random.default_rng(0).integers(0, 9, 300).astype(np.uint16)
OPTIM = OptimSpec(Optimizer.adam, learning_rate=1e-2, weight_decay=0.0, steps=6)
SIZES = {"batch": 4, "length": 12, "seeds": 2, "chunk": 3}


@pytest.mark.parametrize("n_layers", [0, 1])
def test_device_and_disk_train_alike(n_layers: int) -> None:
    spec = TransformerSpec(d_vocab=9, n_ctx=12, n_layers=n_layers, n_heads=2, d_model=8)
    model = Transformer(spec)
    losses = []
    for limit in (10_000, 100):
        state, advance = train_on_text(
            jax.random.key(0), model, OPTIM, TEXT, device_bytes=limit, **SIZES
        )
        for _ in range(2):
            state, metrics = advance(state)
        losses.append(np.asarray(metrics["loss"]))
        assert state.step.tolist() == [6, 6]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert losses[0][0] != losses[0][1]


class Recurrent(nn.Module):
    """A language model that is no transformer: ten lines."""

    d_vocab: int
    d_model: int

    @nn.compact
    def __call__(self, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
        stream = nn.Embed(self.d_vocab, self.d_model)(tokens)
        stream = nn.RNN(nn.GRUCell(self.d_model))(stream)
        return nn.Dense(self.d_vocab)(stream), stream


MODULE = Recurrent(d_vocab=8, d_model=6)
OWN_MODULE_SOURCE = RepeatedSource(batch=4, length=9, d_vocab=8, min_period=3, max_period=4)
OWN_MODULE_OPTIM = OptimSpec(
    Optimizer.adam, learning_rate=1e-2, weight_decay=0.0, clip_norm=1.0, steps=60
)
PLAN = Plan(NextToken(MODULE, OWN_MODULE_SOURCE), OWN_MODULE_OPTIM, chunk=20)


def test_an_ensemble_learns_and_resumes_where_it_stopped(tmp_path: Path) -> None:
    assert isinstance(MODULE, LanguageModule)
    members = new_members(jax.random.key(0), jnp.array([1e-2, 3e-2]), jnp.zeros(2))
    advance = ensemble.advance(PLAN, members)
    state, first = advance(ensemble.init(PLAN, members))
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, state)
        checkpoints.wait()
        through, last = advance(advance(state)[0])
        abstract = jax.eval_shape(lambda: ensemble.init(PLAN, members))
        resumed = checkpoints.restore(1, abstract)
    resumed, again = advance(advance(resumed)[0])
    jax.tree.map(np.testing.assert_array_equal, resumed, through)
    np.testing.assert_array_equal(again["loss"], last["loss"])
    assert (np.asarray(last["loss"]) < np.asarray(first["loss"]) - 0.05).all()
    kernels = through.params["Dense_0"]["kernel"]
    assert kernels.shape == (2, 6, 8) and np.abs(np.asarray(kernels[0] - kernels[1])).max() > 1e-2


def _hold_layer_0(model: Model, text: jax.Array, step: Step) -> Interventions:
    """Every head of layer 0 attends to the token before, from step 2 on to itself."""
    n_ctx, heads = text.shape[-1], (model.n_layers, model.n_heads)
    before = jnp.eye(n_ctx, k=-1).at[0, 0].set(1.0)
    pattern = jnp.where(step.number < 2, before, jnp.eye(n_ctx))
    frozen = jnp.zeros(heads, bool).at[0].set(True)
    return Interventions(
        patterns=jnp.broadcast_to(pattern, (*heads, n_ctx, n_ctx)), pattern_frozen=frozen
    )


def _queries(model: Model, step: Step) -> jax.Array:
    return step.hyper * jnp.sum(model.blocks.attention.W_Q**2)


def test_edit_and_penalty_of_a_step_by_hand() -> None:
    problem = NextToken(MODEL, SOURCE, _hold_layer_0, _queries)
    params = problem.init(jax.random.key(4), 0.5)
    key = jax.random.key(5)
    for number, back in ((0, 1), (3, 0)):
        texts, step = problem.batch(key, jnp.array(number))
        np.testing.assert_array_equal(texts, SOURCE(at_index(key, number)))
        (loss, terms), grads = jax.value_and_grad(problem.loss, has_aux=True)(
            params, (texts, step), 0.5
        )
        weights = {name: np.asarray(value, float) for name, value in params.items()}
        x = weights["W_E"][np.asarray(texts)]
        read = np.concatenate([x[:, :1], x[:, :-1]], axis=1) if back else x
        maps = weights["blocks.attention.W_V"][0] @ weights["blocks.attention.W_O"][0]
        logits = (x + read @ maps.sum(axis=0)) @ weights["W_U"]
        chosen = np.take_along_axis(logits[:, :-1], np.asarray(texts)[:, 1:, None], axis=-1)[..., 0]
        by_hand = (np.log(np.exp(logits).sum(axis=-1))[:, :-1] - chosen).mean()
        penalty = 0.5 * (weights["blocks.attention.W_Q"] ** 2).sum()
        assert float(terms["next_token"]) == pytest.approx(by_hand, rel=1e-5)
        assert float(loss) == pytest.approx(by_hand + penalty, rel=1e-5)
        # Nothing reads the held scores: keys get no gradient, queries that of the penalty alone.
        assert not grads["blocks.attention.W_K"].any()
        np.testing.assert_allclose(
            grads["blocks.attention.W_Q"], weights["blocks.attention.W_Q"], rtol=1e-5
        )


def test_an_edited_ensemble_has_a_penalty_a_member() -> None:
    problem = NextToken(MODEL, SOURCE, penalty=_queries)
    members = new_members(jax.random.key(6), 0.02, jnp.array([0.0, 10.0]))
    same = members._replace(init_key=members.init_key[jnp.array([0, 0])])
    plan = Plan(problem, OptimSpec(Optimizer.adam, weight_decay=0.0), 60, mesh=None)
    state, metrics = advance(plan, same)(init(plan, same))
    size = jnp.sum(state.params["blocks.attention.W_Q"] ** 2, axis=(1, 2, 3, 4))
    assert size[1] < 0.2 * size[0]
    np.testing.assert_allclose(
        metrics["next_token"] + metrics["penalty"], metrics["loss"], rtol=1e-5
    )


def test_an_edit_needs_a_transformer() -> None:
    with pytest.raises(ValueError, match="must be a Transformer where edit is given"):
        NextToken(nn.Dense(3), SOURCE, _hold_layer_0)
