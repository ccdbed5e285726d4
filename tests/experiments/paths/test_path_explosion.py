"""Ledgers of ensembles: the largest of all paths, and none for a member that diverged."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.data.synthetic import ChainedMapSource
from circuitax.kernel.forward import forward
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.members import drawn_by_each
from circuitax.models.transformer import init
from circuitax.records.record import Record
from circuitax.training.optim import OptimSpec
from experiments.paths.path_explosion.experiment import Spec, measure
from experiments.paths.path_explosion.figure import depth
from experiments.paths.path_explosion.measures import first_above_second
from experiments.paths.path_explosion.path_ledger import rank, ranks


def test_ledgers_agree_with_all_paths_and_skip_the_dead():
    source = ChainedMapSource(batch=2, n_symbols=4, n_steps=2, n_questions=2)
    spec = TransformerSpec(d_vocab=28, n_ctx=8, n_layers=3, n_heads=2, d_model=8)
    models = jax.vmap(lambda key: init(key, spec))(jax.random.split(jax.random.key(0), 3))
    models = jax.tree.map(lambda x: x.at[1].set(jnp.nan), models)
    texts = drawn_by_each(source, jax.random.key(1), 3)
    found = rank(models, jnp.array([True, False, True]), texts)
    assert found["top"].shape == (3, 2, 20) and found["top_path"].shape == (3, 2, 20)
    assert np.isnan(found["brute_force_gap"][1]).all() and not found["top_path"][1, 0, 0]
    lived = found["brute_force_gap"][[0, 2]]
    assert lived.max() < 1e-5 and found["complete"][[0, 2]].all()
    assert found["position_complete"][[0, 2]].all()
    # Of each member on its own texts.
    last = rank(models, jnp.array([False, False, True]), texts.at[:2].set(0))
    np.testing.assert_array_equal(last["top"][2], found["top"][2])
    sizes = np.abs(found["top"][0, 0])
    assert (np.diff(sizes) <= 0).all() and len(set(found["top_path"][0, 0])) == 20
    np.testing.assert_allclose(found["all_sizes"][0, 0][: len(ranks(20))], sizes, rtol=1e-4)


def test_losses_are_those_on_the_answers_of_each_kind_of_question(x64):
    task = ChainedMapSource(batch=6, n_symbols=3, n_steps=3, n_questions=4)
    sizes = TransformerSpec(d_vocab=21, n_ctx=11, n_layers=2, n_heads=2, d_model=6)
    spec = Spec(model=sizes, task=task, optim=OptimSpec(steps=40), chunk=20)
    model, exam = init(jax.random.key(2), sizes, float), task.sample(jax.random.key(4))
    found = jax.jit(partial(measure, spec))(model, exam)
    direct = np.asarray(model.W_E @ model.W_U)
    every = {1: [], 2: [], 3: []}
    alone, sizes_of_logits = [], []
    for text, steps in zip(np.asarray(exam.tokens), np.asarray(exam.steps), strict=True):
        logits = np.asarray(forward(model, jnp.asarray(text))[0])
        for question, k in enumerate(steps):
            at = 3 + 2 * question  # behind the three steps of the map, before the answer
            for rows, losses in ((logits[at], every[int(k)]), (direct[text[at]], alone)):
                losses.append(np.log(np.exp(rows).sum()) - rows[text[at + 1]])
            sizes_of_logits.append(direct[text[at]].var())
    np.testing.assert_allclose(
        found["loss_by_steps"], [np.mean(every[k]) for k in (1, 2, 3)], rtol=1e-10
    )
    whole = np.mean(np.concatenate(list(every.values())))
    np.testing.assert_allclose(found["loss"][0], np.mean(alone), rtol=1e-10)
    np.testing.assert_allclose(found["loss"][2], whole, rtol=1e-10)
    np.testing.assert_allclose(found["shapley"].sum(), np.mean(alone) - whole, rtol=1e-8)
    np.testing.assert_allclose(found["size"][0], np.mean(sizes_of_logits) ** 0.5, rtol=1e-10)
    assert found["remainder"] < 1e-12


def test_undoing_a_direct_path_worse_than_a_guess_is_no_gain():
    leads = np.array([[-1.4, 1.0, 1.5], [0.3, 1.0, 1.5], [-1.0, 0.1, 2.0]])
    losses = np.log(1 + 4 * np.exp(-leads))  # one of five tokens, the others alike
    data = xr.Dataset({"loss": (("member", "order"), losses), "guess": np.log(5)})
    np.testing.assert_allclose(first_above_second(data), [1 - 0.5, 0.7 - 0.5, 0.1 - 1.9])


def test_the_loss_of_every_kind_of_question_is_drawn_against_depth():
    means = np.array([[0.1, 1.0, 1.5], [0.1, 0.2, 1.2]])
    seeds = means[:, None] + np.array([-0.05, 0.0, 0.05])[None, :, None]
    alive = np.array([[True, True, True], [True, True, False]])
    data = xr.Dataset(
        {
            "loss_by_steps": (("depth", "member", "steps"), seeds),
            "alive": (("depth", "member"), alive),
            "guess": np.log(5),
        },
        coords={"depth": [1, 2], "steps": [1, 2, 3]},
    )
    (ax,) = depth(Record(data)).axes
    drawn = [line.get_ydata() for line in ax.get_lines() if line.get_marker() == "None"]
    two_steps = [y for y in drawn if len(y) == 2 and np.isclose(y[0], 1.0)]
    # The second mean is that of the two members that stayed finite.
    np.testing.assert_allclose(two_steps[0], [1.0, 0.175])
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"1 step", "2 steps", "3 steps", "a guess"} <= set(labels)


def test_ranks_go_from_the_first_to_the_last():
    np.testing.assert_array_equal(ranks(5), [1, 2, 3, 4, 5])
    many = ranks(15_625)
    assert many[0] == 1 and many[-1] == 15_625 and (np.diff(many) > 0).all() and many.size < 100
