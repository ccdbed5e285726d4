"""What the phase-change experiment measures beside the library's own functions."""

from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.detectors import induction_scores
from circuitax.circuits.losses import loss_slope
from circuitax.config.catalogue import discover
from circuitax.config.planned_runs import plan
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.forward import forward
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init
from circuitax.records.claims import FAILS, HOLDS, WOULD_HOLD, settle
from circuitax.records.estimate import mean_estimate
from circuitax.records.null_samples import exchanged, regrouped
from circuitax.records.record import Record
from experiments.induction.induction_phase import experiment as induction_phase
from experiments.induction.induction_phase import measures
from experiments.induction.induction_phase.claims import CLAIMS
from experiments.induction.induction_phase.experiment import in_context, looking_back, without_heads
from experiments.induction.induction_phase.figure import mean_slope
from experiments.induction.induction_phase.measures import (
    PLACES,
    as_early,
    bends,
    least_share,
    most_steepened,
    one_bump,
    pair_scores,
    pairs_alike,
    partly_at_once,
    side_by_side,
    steepening,
    turns,
    without_one_bump,
)

SIZES = TransformerSpec(d_vocab=8, n_ctx=12, n_layers=2, n_heads=2, d_model=8, init_scale=3.0)
TASK = RepeatedSource(4, 12, 8, min_period=3, max_period=6, distinct=True)


def score(model: Model, texts: Array) -> float:
    losses = induction_scores(model, texts).loss_by_position
    return float(in_context(TASK, losses))


def silenced(model: Model, layer: int, head: int) -> Model:
    heads = model.blocks.attention
    silent = heads._replace(W_O=heads.W_O.at[layer, head].set(0))
    return model.replace(blocks=model.blocks._replace(attention=silent))


def test_in_context_is_late_minus_early() -> None:
    losses = np.arange(11.0)  # predictions of tokens 1 ... 11
    # early: before a text can repeat, tokens 1 and 2; late: from where all do, tokens 7 ... 11
    assert in_context(TASK, jax.numpy.asarray(losses)) == 8.0 - 0.5


def test_looking_back_is_told_apart_where_tokens_are_new() -> None:
    model, texts = init(jax.random.key(1), SIZES), np.asarray(TASK(jax.random.key(2)))
    weights: dict[bool, list[np.ndarray]] = {False: [], True: []}
    for text in texts:
        patterns = np.asarray(forward(model, jax.numpy.asarray(text))[1].patterns)
        for t in range(1, len(text)):
            weights[text[t] in text[:t]].append(patterns[..., t, t - 1])
    found = jax.jit(looking_back)(model, texts)
    for name, again in (("previous_new", False), ("previous_again", True)):
        np.testing.assert_allclose(found[name], np.mean(weights[again], axis=0), rtol=1e-5)
    # Each mean counts for as many tokens as it is over.
    n_new, n_again = (len(weights[again]) for again in (False, True))
    assert n_new > 9 and n_again > 9
    both = (n_new * found["previous_new"] + n_again * found["previous_again"]) / (n_new + n_again)
    np.testing.assert_allclose(both, induction_scores(model, texts).previous, rtol=1e-5)


def test_heads_are_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model, texts = init(jax.random.key(1), SIZES), TASK(jax.random.key(2))
    prefix = induction_scores(model, texts).prefix
    # Random heads: call the one that matches prefixes best the induction head.
    monkeypatch.setattr(induction_phase, "PREFIX_SCORE", float(prefix.max()))
    layer, head = np.unravel_index(int(prefix.argmax()), prefix.shape)
    found = jax.jit(partial(without_heads, task=TASK))(model, texts)
    assert found["each"].shape == (2, 2, 2) and found["groups"].shape == (2, 2)
    held, reacts = found["each"]
    for i in range(2):
        for j in range(2):
            wanted = score(silenced(model, i, j), texts)
            np.testing.assert_allclose(reacts[i, j], wanted, rtol=1e-4, atol=1e-5)
    # Nothing reads the last layer's patterns again, and much reads the first one's output.
    np.testing.assert_allclose(held[1], reacts[1], rtol=1e-4, atol=1e-5)
    assert np.abs(held[0] - reacts[0]).max() > 1e-3
    np.testing.assert_allclose(found["groups"][:, 0], found["each"][:, layer, head], rtol=1e-4)
    everything = model
    for i, j in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        if (i, j) != (layer, head):
            everything = silenced(everything, i, j)
    np.testing.assert_allclose(found["groups"][1, 1], score(everything, texts), rtol=1e-4)


@pytest.mark.slow
def test_double_precision_reaches_the_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the arm with the most to measure; that a run has the precision asked, others test."""
    monkeypatch.setattr(induction_phase, "ARMS", {"2 layers": (2, False)})
    spec = plan(["experiment=induction_phase", "scale=tiny"], discover())[1][-1].spec
    with jax.enable_x64(True):
        data = induction_phase.run(spec, jax.random.key(0), Lab(tmp_path)).data
    for name in ("loss", "in_context", "prefix", "previous", "copying", "matching", "ablated"):
        values = data[name].values
        # Numbers of single precision would stay as they are.
        assert (values != values.astype(np.float32)).mean() > 0.9, name


def test_trajectories_keep_distances_in_their_plane() -> None:
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(3, 4, 2)) * [5, 1]
    basis = np.linalg.qr(rng.normal(size=(7, 2)))[0].T
    losses = plane @ basis + 3.0
    losses[2, 3] = np.nan
    found, explained = induction_phase.trajectories(losses)
    assert explained.sum() == pytest.approx(1) and explained[0] > explained[1]
    assert np.isnan(found[2, 3]).all()
    kept = np.isfinite(losses).all(-1)
    between = [np.linalg.norm(x[kept][:, None] - x[kept], axis=-1) for x in (found, plane)]
    np.testing.assert_allclose(between[0], between[1], atol=1e-9)


def test_each_member_has_the_plane_of_its_own_texts() -> None:
    rng = np.random.default_rng(1)
    paths = rng.normal(size=(2, 9, 3, 2)) * [5, 1]  # arm, step, member
    bases = [np.linalg.qr(rng.normal(size=(7, 2)))[0].T for _ in range(3)]
    losses = np.stack([paths[:, :, m] @ bases[m] for m in range(3)], axis=2)
    losses[:, :, 2] = np.nan
    places, explained = induction_phase.own_planes(losses)
    for m in range(2):
        alone, share = induction_phase.trajectories(losses[:, :, m])
        np.testing.assert_allclose(np.abs(places[:, :, m]), np.abs(alone), atol=1e-9)
        assert share.sum() == pytest.approx(1)
    # In one plane of all, four directions would share the variance.
    assert explained.sum() == pytest.approx(1)
    assert np.isnan(places[:, :, 2]).all()


def test_axes_of_all_members_point_the_same_way() -> None:
    path = np.random.default_rng(2).normal(size=(2, 9, 2)) * [5, 1]
    turned = np.stack([path, -path, path * [1, -1]], axis=2)
    places, _ = induction_phase.own_planes(turned)
    for m in (1, 2):
        np.testing.assert_allclose(places[:, :, m], places[:, :, 0], atol=1e-9)


def members(steps: np.ndarray) -> xr.Dataset:
    """Two members: one turns by a right angle and learns late tokens at step 40, one does not."""
    way = np.where(steps <= 40, steps, 40.0)
    turning = np.stack([way, np.maximum(steps - 40.0, 0)], axis=1)
    straight = np.stack([steps * 1.0, 2.0 * steps], axis=1)
    learned = np.where(steps[:, None] > 40, 1.0, 3.0) * np.ones(6)
    loss = np.stack([np.where(np.arange(6) < 3, 3.0, learned), np.full((len(steps), 6), 3.0)], 1)
    return xr.Dataset(
        {
            "trajectory": (("step", "member", "component"), np.stack([turning, straight], 1)),
            "loss_by_position": (("step", "member", "position"), loss),
            "jump_start": ("member", [40.0, 40.0]),
            "jump_end": ("member", [55.0, 55.0]),
            "first_repeat": 3,
            "every_text_repeats": 4,
        },
        coords={"step": steps, "index": ("position", np.arange(1, 7))},
    )


def test_turns_and_scores_of_every_pair_by_hand() -> None:
    data = members(np.arange(0, 121, 5))
    # One turns by 90 degrees and the other by none: the mean of both, and its interval.
    assert turns(data, data).value == pytest.approx(45, abs=1e-4)
    assert turns(data, data).high == pytest.approx(
        mean_estimate(np.array([90.0, 0])).high, abs=1e-3
    )
    # From (40, 40) on it goes up alone, where the way there rose as fast as it went on.
    later = data.assign(jump_start=data.jump_start + 40, jump_end=data.jump_end + 40)
    assert turns(data, later).value == pytest.approx(22.5, abs=1e-4)
    # Early positions 0 and 1 at 3 and 4 nats, late ones 4 and 5 at 1 and 2.5.
    end = xr.DataArray([3.0, 4.0, 9.0, 9.0, 1.0, 2.5], dims="position")
    uneven = data.assign(loss_by_position=end.expand_dims(step=data.step, member=2))
    scores = pair_scores(uneven)
    assert scores.sizes == {"member": 2, "early": 2, "late": 2}
    np.testing.assert_allclose(np.sort(scores.values[0].ravel()), [0.5, 1.5, 2.0, 3.0])
    factors = xr.DataArray([1, 3], dims="member")
    twice = uneven.assign(loss_by_position=uneven.loss_by_position * factors)
    # Its means are 4, 1, 6 and 3; those of the other kind, with late losses of 2 and 2.5, are half
    # and less: 1 of 4, 0.5 of 1, 2 of 6, 1.5 of 3.
    late = xr.DataArray([3.0, 4.0, 9.0, 9.0, 2.0, 2.5], dims="position")
    other = data.assign(loss_by_position=late.expand_dims(step=data.step, member=2))
    alike = pairs_alike(twice, other)
    assert alike.value == pytest.approx(1 / 4) and alike.n == 4
    assert pairs_alike(twice, twice).value == pytest.approx(1)


def test_slopes_change_through_the_change_as_the_library_has_them() -> None:
    data = members(np.arange(0, 121, 5))
    losses = 3 + np.random.default_rng(0).normal(size=(25, 2, 6))
    data = data.assign(loss_by_position=(("step", "member", "position"), losses))
    # Every text repeats by index 4; the change is from step 40, the ninth, to 55.
    slope = np.asarray(loss_slope(jax.numpy.asarray(losses)))[..., 3]
    wanted, found = mean_estimate(slope[11] - slope[8]), steepening(data)
    np.testing.assert_allclose(
        [found.value, found.low, found.high], [wanted.value, wanted.low, wanted.high], atol=1e-4
    )


def test_a_slope_is_read_where_it_falls_most_whatever_the_score_does() -> None:
    data = members(np.arange(0, 121, 5))
    # Losses fall by ln(index) of position times a rise of 2 from step 80 to 100, a sixth.
    steep = 2 * np.clip((data.step.values - 80) / 20, 0, 1)
    losses = 3 - steep[:, None, None] * np.log(np.arange(1, 7)) * np.array([1, 2])[None, :, None]
    data = data.assign(loss_by_position=(("step", "member", "position"), losses))
    np.testing.assert_allclose(most_steepened(data).value, -3, atol=1e-6)
    assert steepening(data).value == pytest.approx(0), "its change is from step 40 to 55"


def test_the_lesser_share_is_that_of_the_smaller_window() -> None:
    steps = np.arange(0.0, 101.0, 5.0)
    score = -2 * np.clip((steps - 40) / 25, 0, 1)
    both = score[:, None] * np.array([1, 3])
    data = xr.Dataset({"in_context": (("step", "member"), both)}, {"step": steps})
    np.testing.assert_allclose(least_share(data).value, 4 / 5)


def test_one_layer_stands_beside_two_of_the_same_texts() -> None:
    alive = np.ones((2, 4), bool)
    alive[0, 1] = alive[1, 2] = False
    data = xr.Dataset(
        {
            "alive": (("arm", "member"), alive),
            "jump_start": (("arm", "member"), np.arange(8.0).reshape(2, 4)),
        },
        {"arm": ["1 layer", "2 layers"]},
    )
    one, two = side_by_side(data)
    assert one.jump_start.values.tolist() == [0, 3] and two.jump_start.values.tolist() == [4, 7]


def test_slopes_are_means_over_members_whether_a_record_has_each_or_the_mean() -> None:
    each = xr.DataArray([[1.0, 2.0], [4.0, 8.0], [7.0, 20.0]], dims=("member", "position"))
    for slope in (each, each.mean("member")):
        np.testing.assert_allclose(mean_slope(xr.Dataset({"slope": slope})), [4.0, 10.0])


def test_a_curve_in_the_time_of_another_is_half_way_with_it() -> None:
    steps = np.arange(0.0, 101.0)
    late, early = np.array([50.0, 80.0]), np.array([25.0, 20.0])
    score = -np.clip((steps[:, None] - late) / 10 + 0.5, 0, 1)
    two = xr.Dataset(
        {"loss": (("step", "member"), score), "loss_middle": ("member", late)}, {"step": steps}
    )
    moved = as_early(two, two.assign(loss_middle=("member", early)), "loss").loss
    assert moved.dims == ("step", "member") and moved.step.values.tolist() == steps.tolist()
    for member, place in enumerate(early):
        np.testing.assert_allclose(moved.sel(step=[0, place, 100], member=member), [0, -0.5, -1])


def test_two_fifths_of_a_fall_at_once_are_a_bump_wherever_they_are() -> None:
    loss = xr.DataArray(-np.linspace([0, 0], [1, 9], 601), {"step": np.arange(601)}, ("step", "n"))
    assert not bends(loss).any()
    for place in PLACES:
        assert bends(partly_at_once(loss, place)).all()
        np.testing.assert_allclose(partly_at_once(loss, place)[-1], [-1, -9])


def test_a_bump_lies_where_the_score_jumps_and_is_the_only_one() -> None:
    steps, starts = np.arange(0.0, 601.0, 20.0)[:, None], np.array([160.0, 200.0, 240.0])

    def fallen(by: float, beside: float, width: float) -> xr.DataArray:
        share = np.clip((steps - starts - beside) / width, 0, 1)
        return xr.DataArray(by * share, {"step": steps[:, 0]}, ("step", "member"))

    times = {"jump_start": ("member", starts), "jump_end": ("member", starts + 100)}
    two = xr.Dataset({"loss": 4 - fallen(1, 0, 100)}).assign(times)
    assert one_bump(two).all()
    assert not any(one_bump(world).any() for world in without_one_bump(two))
    # A small one, little of which lies outside of the jump, begins up to 50 steps from it.
    small = two.assign(loss=4 - fallen(0.4, 0, 100))
    for way, inside in ((40, True), (-40, True), (60, False), (-60, False)):
        moved = small.assign(jump_start=two.jump_start + way, jump_end=two.jump_end + way)
        assert (one_bump(moved) == inside).all(), way
    # Another fall before it or after it, half as large.
    for beside in (-100, 160):
        assert one_bump(two.assign(loss=two.loss - fallen(0.2, beside, 40))).all()
        assert not one_bump(two.assign(loss=two.loss - fallen(0.5, beside, 40))).any()
    # What falls as fast to the end of training has no later stretch that is slower.
    assert not one_bump(two.assign(loss=4 - fallen(6, 0, 600))).any()
    assert not one_bump(two.assign(loss=4 - fallen(0.25, 0, 100))).any()


ARMS = ("1 layer", "2 layers", "1 layer, smeared", "2 layers, smeared")


def curves(starts: np.ndarray, sudden: dict[str, bool]) -> Record:
    """Twenty members an arm that gain 3 nats by context: at once, or evenly over training."""
    steps, n = np.arange(0.0, 601.0, 20.0), len(starts)
    score = {
        True: -3 * np.clip((steps[:, None] - starts) / 40, 0, 1),
        False: -np.clip(steps[:, None] / 600, 0, 1) + 0 * starts,
    }
    in_context = np.stack([score[sudden[arm]] for arm in ARMS])
    noise = 0.01 * np.random.default_rng(0).normal(size=(4, n))
    each, at_step = ("arm", "member"), ("arm", "step", "member")
    heads = (*at_step, "layer", "head")
    zero = np.zeros((4, len(steps), n))
    scores = np.zeros((4, len(steps), n, 2, 2))
    arrays = {
        "jump_start": starts + 0 * noise,
        "jump_end": starts + 40 + 0 * noise,
        "in_context_middle": starts + 20 + noise,
        "loss_middle": starts + 20 + noise,
        "best_prefix_middle": starts + 20 + noise,
        "best_previous_middle": starts + 20 + noise,
    }
    losses = np.stack([3 + 0 * zero, 3 + 0 * zero, 3 + in_context], axis=-1)
    ways = np.stack([steps[:, None] + zero, zero], axis=-1)
    curve = dict.fromkeys(("best_previous_new", "best_previous_again"), zero)
    curve["best_prefix"] = np.clip((steps[:, None] - starts) / 40, 0, 1) + zero
    data = xr.Dataset(
        {name: (each, values) for name, values in arrays.items()}
        | {name: (at_step, values) for name, values in curve.items()}
        | dict.fromkeys(("prefix", "previous", "copying"), (heads, scores))
        | {
            "alive": (each, np.ones((4, n), bool)),
            "in_context": (at_step, in_context + noise[:, None]),
            "loss": (at_step, 4 + in_context),
            "loss_by_position": ((*at_step, "position"), losses),
            "trajectory": ((*at_step, "component"), ways),
            "matching": ((*at_step, "writer", "reader"), scores),
            "ablated_group": ((*at_step, "ablation", "group"), scores[..., :1, :]),
            "first_repeat": 2,
            "every_text_repeats": 2,
        },
        {
            "arm": list(ARMS),
            "step": steps,
            "ablation": ["patterns held"],
            "group": ["prefix-matching heads", "all others"],
            "index": ("position", [1, 2, 3]),
        },
    )
    return Record(data, {"prefix_score": 0.4})


def test_nulls_are_one_layer_and_the_times_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in (exchanged, regrouped):
        monkeypatch.setattr(measures, draw.__name__, partial(draw, n_draws=50))
    two = dict.fromkeys(ARMS, True) | {"1 layer": False}
    # A change needs a sixth of training, 100 steps, before it and after it.
    spread, together = np.linspace(140, 460, 20), np.full(20, 200.0)

    def verdicts(record: Record) -> dict[str, str]:
        found = settle(CLAIMS, *measures.measure(record), measures.nulls(record))
        return {row.claim.id: row.verdict for row in found}

    found, same_time = verdicts(curves(spread, two)), verdicts(curves(together, two))
    all_change = verdicts(curves(spread, dict.fromkeys(ARMS, True)))
    for claim in ("phase-two-layers", "phase-share", "phase-smeared"):
        assert (found[claim], all_change[claim]) == (HOLDS, WOULD_HOLD), claim
    for claim in ("phase-one-layer", "bump-one-layer"):
        assert (found[claim], all_change[claim]) == (HOLDS, FAILS), claim
    # What changes within the first sixth has nothing so wide before it.
    early = curves(np.full(20, 20.0), dict.fromkeys(ARMS, True))
    assert {verdicts(early)[f"{name}-one-layer"] for name in ("phase", "bump")} == {FAILS}
    # Where all seeds change at one time, the time of another seed lies in the change too.
    assert (found["together-prefix"], same_time["together-prefix"]) == (HOLDS, WOULD_HOLD)
    # At its end, 15 of 40 steps behind its middle, is not within its middle half.
    late = curves(spread, two)
    late.data["best_prefix_middle"] += 15
    assert verdicts(late)["together-prefix"] == FAILS
    # Nor does a curve that grows over all of training rise within the change.
    slow = curves(spread, two)
    slow.data["best_prefix"] = slow.data.step / 600 + 0 * slow.data.best_prefix
    assert verdicts(slow)["together-prefix"] == FAILS
    assert (found["icl-depth"], all_change["icl-depth"]) == (HOLDS, FAILS)
