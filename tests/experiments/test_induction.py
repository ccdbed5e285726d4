"""Induction: phase changes by the printed step, and readings of models whose heads are known."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.known import Strengths, induction_model, planted_model
from circuitax.circuits.losses import term_losses
from circuitax.circuits.weights.heads import position_blocks, positional_share
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init as init_model
from experiments.induction.head_roles.experiment import of_texts
from experiments.induction.head_roles.patching import (
    ROUTES,
    of_pairs,
    swapped_pairs,
    swapped_places,
)
from experiments.induction.planted_heads.experiment import qk_trace
from experiments.induction.shared.phase_change import (
    has_changed,
    jump_share,
    jumps,
    last_score,
    steepest_fall,
)
from experiments.induction.shared.training_weights import (
    WEIGHTS,
    patterns_of_best,
    weight_changes,
    with_weights,
)
from experiments.induction.shared.window_readings import order_losses, window_readings

# --- Phase changes, on curves worked out by hand.


def members_of(score, steps):
    """Networks with these in-context scores ``[step, member]``."""
    return xr.Dataset({"in_context": (("step", "member"), score)}, {"step": steps})


def curves():
    """Three members that save 4, 2 and 3 nats, of which 2.6, 1.9 and 2.4 in one quarter."""
    score = -np.array(
        [
            [0.0, 0.0, 2.6, 2.6, 3.3, 4.0],
            [0.0, 0.1, 2.0, 2.0, 2.0, 2.0],
            [-0.5, -0.5, 0.1, 2.5, 2.5, 2.5],
        ]
    ).T
    return members_of(score, 10 * np.arange(6))


def test_a_change_is_five_eighths_of_what_two_layers_save():
    members = curves()
    assert last_score(members) == pytest.approx((4 + 2 + 2.5) / 3)
    # Five eighths of four nats are 2.5, of three 1.875.
    assert has_changed(members, 4.0).values.tolist() == [True, False, False]
    assert has_changed(members, 3.0).values.tolist() == [True, True, True]
    np.testing.assert_allclose(jump_share(members), [2.6 / 4, 1.9 / 2, 2.4 / 2.5])
    # Context that saves nothing has no step: every jump is above a step below zero.
    assert not has_changed(members, -0.1).any() and not has_changed(members, 0.0).any()


def test_a_window_lies_between_measurements_and_ends_with_the_last_one():
    score = -np.array([[0.0, 1.0, 1.0, 4.0], [0.0, 4.0, 5.0, 5.0]]).T
    members = members_of(score, np.array([0, 10, 90, 100]))
    # The first falls by 3 in the last ten of 100 steps; the second by 4 in ten, then by 1 in 80.
    # A window is 25 steps.
    np.testing.assert_allclose(steepest_fall(members), [3.0, 4 + 15 / 80])
    np.testing.assert_allclose(jump_share(members, 1 / 10), [3 / 4, 4 / 5])


def test_a_gain_that_forms_evenly_is_no_jump_however_large():
    steps = np.arange(13)
    even, late = steps / 12.0, (steps >= 6) * 1.0
    members = members_of(-4 * np.stack([even, late, 1 - (1 - even) ** 2], axis=1), steps)
    # In no sixth does an even gain, or one that slows down, have more than in an earlier one.
    assert jumps(members).values.tolist() == [False, True, False]
    large = members.assign(in_context=100 * members.in_context)
    assert last_score(large) == pytest.approx(400)
    assert has_changed(large, 4.0).values.tolist() == [False, True, False]
    assert not jumps(members.assign(in_context=-members.in_context)).any(), "a loss by context"


# --- Readings of windows, against the runs that they are means of.


def test_readings_of_windows_are_means_over_runs(rng, x64):
    spec = TransformerSpec(
        n_layers=2, n_heads=2, d_model=6, d_vocab=7, n_ctx=8, positions=Positions.shortformer
    )
    model = init_model(jax.random.key(4), spec)
    windows = jnp.asarray(rng.integers(0, 7, (3, 8)))
    found = jax.jit(window_readings, static_argnames="offsets")(model, windows, offsets=3)
    runs = [run(model, window) for window in windows]
    terms = [term_losses(each) for each in runs]
    for name in ("order", "first_order"):
        expected = np.mean([getattr(term, name).mean(axis=1) for term in terms], axis=0)
        np.testing.assert_allclose(found[f"{name}_loss"], expected, atol=1e-12)
    np.testing.assert_allclose(order_losses(model, windows), found["order_loss"], atol=1e-12)
    patterns = np.mean([each.trace.patterns for each in runs], axis=0)
    for k in range(3):
        at_distance = np.mean([patterns[:, :, t, t - k] for t in range(4, 8)], axis=0)
        np.testing.assert_allclose(found["attention"][..., k], at_distance, atol=1e-12)
    shares = positional_share(position_blocks(model, 8))
    np.testing.assert_allclose(found["positional"], shares[0], rtol=1e-12)
    assert np.abs(shares[0] - shares[1]).min() > 1e-3


# --- Weights of all steps of a training.


def test_one_circuit_that_changes_alone_carries_all_of_the_drop(x64):
    spec = TransformerSpec(
        n_layers=2, n_heads=2, d_model=6, d_vocab=7, n_ctx=8, positions=Positions.shortformer
    )
    model, end = (init_model(jax.random.key(i), spec, float) for i in range(2))
    texts = jax.random.randint(jax.random.key(2), (3, 8), 0, 7)
    models = [model]
    for weight, layer in product(("QK", "OV"), (1, 0)):
        now, then = model.blocks.attention, end.blocks.attention
        names = ["W_Q", "W_K"] if weight == "QK" else ["W_V", "W_O"]
        new = {n: getattr(now, n).at[layer].set(getattr(then, n)[layer]) for n in names}
        model = model.replace(blocks=model.blocks._replace(attention=now._replace(**new)))
        models.append(model)
    for name in ("W_E", "W_U", "W_pos"):
        model = model.replace(**{name: getattr(end, name)})
        models.append(model)
    rows = np.stack(
        [with_weights(lambda _: {})(jax.tree.map(lambda x: x[None], m))["weights"] for m in models]
    )
    found = weight_changes(rows, jax.tree.map(lambda x: x[None], model), texts[None])
    order = [WEIGHTS.index(f"{w}, layer {i}") for w, i in product(("QK", "OV"), (1, 0))]
    carried = np.zeros((8, len(WEIGHTS)))
    drops = np.diff([float(run(m, texts).loss) for m in models])
    carried[np.arange(1, 8), [*order, 4, 5, 6]] = drops
    np.testing.assert_allclose(found["weight_share"][1][:, 0], carried, atol=1e-12)
    np.testing.assert_allclose(found["loss_change"][1][1:, 0], drops, atol=1e-12)
    assert np.abs(drops).min() > 1e-4
    # Of the first member the heads that end best, whatever the other member has.
    scores = np.array([[[0.9, 0.1], [0.2, 0.3]], [[0.2, 0.8], [0.7, 0.1]]])  # [member, layer, head]
    pair = jax.tree.map(lambda a, b: jnp.stack([a, b]), models[3], models[0])
    curves = with_weights(lambda _: {"previous": scores, "prefix": scores})(pair)
    curves = {name: np.stack([values] * 2) for name, values in curves.items()}
    over, pattern = patterns_of_best(pair, curves, texts[0])["pattern"]
    expected = run(models[3], texts[0]).trace.patterns
    assert over[:2] == ("step", "shown_head")
    np.testing.assert_allclose(pattern[1, 0], expected[0, 0], atol=6e-4)
    np.testing.assert_allclose(pattern[1, 1], expected[1, 1], atol=6e-4)


# --- Roles and patches of the hand-made induction model: 0.0 looks back, 1.0 inducts, the rest is
# noise.

PERIOD = 6
FIRST, SECOND = swapped_places(PERIOD)


@pytest.fixture(scope="module")
def known():
    """All measures of the hand-made model."""
    model = induction_model(jax.random.key(0), 12, 12, n_distractors=1)
    pairs = swapped_pairs(jax.random.key(1), 4, 12, PERIOD)
    texts = RepeatedSource(4, 12, 12, 4, 6, distinct=True)(jax.random.key(2))

    @jax.jit
    def measured():
        return of_pairs(model, pairs) | of_texts(model, texts)

    return {name: np.asarray(x) for name, x in measured().items()}


def test_the_head_that_looks_back_is_read_by_keys_alone(known):
    np.testing.assert_allclose(known["routes"][0], [0, 1, 0, 0, 1], atol=0.02)
    assert ROUTES[1] == "K" and np.abs(known["routes"][1]).max() < 0.02


def test_the_swap_is_read_one_position_on(known):
    """A clean token alone makes two matches of two: each of the places is worth about a half."""
    expected = np.zeros((3, PERIOD + FIRST + 1))
    expected[0, [FIRST, SECOND]] = expected[1, [FIRST + 1, SECOND + 1]] = 0.5
    expected[2, -1] = 1
    np.testing.assert_allclose(known["stream"], expected, atol=0.05)


def test_scores_name_both_heads(known):
    assert known["previous"][0, 0] > 0.9 > 5 * known["previous"][1, 0]
    assert known["prefix"][1, 0] > 0.85  # the first token marks itself: a second match, once a text


# --- The paper's trace of QK eigenvalues.


def test_the_trace_is_that_of_dense_circuits_weighted_by_previous_scores(x64):
    strengths = Strengths(*(jnp.array([0.3, -0.4]) for _ in range(3)))
    model = planted_model(jax.random.key(3), strengths, 6, 5)
    weights = np.array([0.7, 0.2])
    found = np.asarray(qk_trace(model, jnp.asarray(weights)))
    W = {name: np.asarray(value) for name, value in model.named().items()}
    E = W["W_E"]
    Q, K, V, O = (W[f"blocks.attention.W_{name}"] for name in "QKVO")
    for head in range(2):
        expected = 0.0
        for writer in range(2):
            circuit = E @ Q[1, head] @ (E @ V[0, writer] @ O[0, writer] @ K[1, head]).T
            expected += weights[writer] * np.trace(circuit - circuit.mean(axis=1)[:, None])
        np.testing.assert_allclose(found[head], expected, rtol=1e-9)
