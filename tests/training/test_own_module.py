"""A Flax module of one's own trains in ensembles, on several devices, and resumes."""

from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.data.synthetic import RepeatedSource
from circuitax.data.windows import WindowSource
from circuitax.training import ensemble
from circuitax.training.checkpoints import Checkpoints
from circuitax.training.ensemble import Plan, device_mesh, new_members
from circuitax.training.language import LanguageModule, NextToken, module_losses, train_on_text
from circuitax.training.optim import Optimizer, OptimSpec


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
SOURCE = RepeatedSource(batch=4, length=9, d_vocab=8, min_period=3, max_period=4)
OPTIM = OptimSpec(Optimizer.adam, learning_rate=1e-2, weight_decay=0.0, clip_norm=1.0, steps=60)
PLAN = Plan(NextToken(MODULE, SOURCE), OPTIM, chunk=20)


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


def test_losses_are_those_of_the_module_applied_by_hand() -> None:
    texts = SOURCE(jax.random.key(1))
    params = PLAN.problem.init(jax.random.key(2), ())
    drawn = MODULE.init(jax.random.key(2), texts)["params"]
    jax.tree.map(np.testing.assert_array_equal, params, drawn)
    logits = np.asarray(MODULE.apply({"params": params}, texts)[0], float)
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    want = [[-np.log(p[i, t, texts[i, t + 1]]) for t in range(8)] for i in range(4)]
    np.testing.assert_allclose(module_losses(MODULE, params, texts), want, rtol=1e-5)


def test_a_mesh_of_devices_trains_alike() -> None:
    members = new_members(jax.random.key(0), 0.1, jnp.zeros(2))
    sgd = OptimSpec(Optimizer.sgd, learning_rate=0.1, weight_decay=0.0, steps=3)
    ends = []
    for mesh in (None, device_mesh(4, data=2)):
        plan = Plan(PLAN.problem, sgd, chunk=3, mesh=mesh)
        state, _ = ensemble.advance(plan, members)(ensemble.init(plan, members))
        ends.append(state.params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6), *ends)


@pytest.mark.parametrize("device_bytes", [10_000, 100])
def test_it_trains_on_text_in_memory_or_on_disk(device_bytes: int) -> None:
    text = np.random.default_rng(0).integers(0, 8, 300).astype(np.uint16)
    state, advance = train_on_text(
        jax.random.key(0),
        MODULE,
        OPTIM,
        text,
        batch=4,
        length=9,
        seeds=2,
        chunk=2,
        device_bytes=device_bytes,
    )
    state, metrics = advance(state)
    problem = NextToken(MODULE, WindowSource(4, 9, jnp.asarray(text)))
    members = new_members(jax.random.key(0), OPTIM.learning_rate, jnp.zeros(2))
    plan = Plan(problem, OPTIM, chunk=2)
    want, expected = ensemble.advance(plan, members)(ensemble.init(plan, members))
    np.testing.assert_allclose(metrics["loss"], expected["loss"], rtol=1e-5)
    close = {"rtol": 1e-4, "atol": 1e-6}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **close), state, want)


class Started(Recurrent):
    """Reads a start token first, and no more than six tokens."""

    start_token: int = 7
    n_ctx: int = 6


def test_a_module_may_name_its_start_token_and_its_longest_text() -> None:
    batch = NextToken(Started(8, 6), SOURCE).batch(jax.random.key(0), jnp.array(0))
    np.testing.assert_array_equal(batch[:, 0], 7)
    with pytest.raises(ValueError, match="length=9 must be at most n_ctx=6 of the module"):
        train_on_text(
            jax.random.key(0),
            Started(8, 6),
            OPTIM,
            np.arange(50) % 7,
            batch=2,
            length=9,
            seeds=1,
            chunk=1,
        )


class Counting(nn.Module):
    """Has variables that are no parameters."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        self.variable("counts", "seen", jnp.zeros, ())
        return nn.Embed(8, 8)(tokens)


class OneNumber(nn.Module):
    """Returns one row for each text instead of one for each token."""

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        return nn.Embed(8, 8)(tokens).mean(axis=1)


def test_modules_that_cannot_be_trained_are_refused() -> None:
    with pytest.raises(ValueError, match=r"collections \['counts', 'params'\], must have 'params'"):
        NextToken(Counting(), SOURCE).init(jax.random.key(0), ())
    problem = NextToken(OneNumber(), SOURCE)
    params = problem.init(jax.random.key(0), ())
    with pytest.raises(ValueError, match=r"logits of shape \(4, 8\), must be \(4, 9\) and d_vocab"):
        problem.loss(params, SOURCE(jax.random.key(1)), ())
