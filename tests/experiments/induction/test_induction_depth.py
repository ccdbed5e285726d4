"""Several sizes: what breaks a repeat, what heads score, and how a record made by hand settles."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.known import induction_model
from circuitax.data.synthetic import RepeatedSource
from circuitax.figures.spec import draw_all
from circuitax.kernel.spec import TransformerSpec
from circuitax.records.record import Record
from experiments.induction.induction_depth import measures
from experiments.induction.induction_depth.experiment import Spec, broken, read_heads
from experiments.induction.induction_depth.figure import FIGURES, curves
from experiments.induction.induction_depth.measures import measure, nulls, slopes
from experiments.induction.induction_depth.nulls import as_large


def test_the_last_token_breaks_the_repeat_and_no_other_changes() -> None:
    texts = jnp.array([[2, 0, 3, 2, 0], [1, 4, 1, 4, 1]])
    found = np.asarray(broken(texts, 6))
    np.testing.assert_array_equal(found[:, :-1], np.asarray(texts)[:, :-1])
    for before, after in zip(np.asarray(texts), found, strict=True):
        assert after[-1] not in before


def test_the_known_induction_head_matches_copies_and_undoes_the_change() -> None:
    period = jnp.array([1, 5, 3, 7, 2, 6])
    text = jnp.concatenate([jnp.array([0]), period, period])[None]
    model = induction_model(jax.random.key(0), 8, text.shape[1])
    # What a phase change does: tokens of the second copy become cheaper.
    change = jnp.where(jnp.arange(text.shape[1] - 1) >= 7, -1.0, 0.0)[None]
    found = {name: np.asarray(value) for name, value in read_heads(model, change, text).items()}
    assert found["prefix"][1, 0] > 0.95 and found["copying"][1, 0] > 0.9
    for name in ("matching", "qk_trace", "eigenvalues"):
        assert np.nanargmax(found[name][1]) == 0, name
    assert found["matching"][1, 0] > 0.95 and np.isnan(found["matching"][0]).all()
    assert found["before_after"][1, 0] < -1
    assert np.abs(found["before_after"][1, 1:]).max() < 0.2 * -found["before_after"][1, 0]


STEPS = np.arange(0, 601, 100)


def record() -> Record:
    """Two widths and one depth of three layers, two seeds each, with numbers chosen by hand."""
    arms, seeds, layers, heads = 4, 2, 3, 2
    context = np.where(STEPS > 200, -2.0, 0.0)[None, :, None] + np.zeros((arms, 7, seeds))
    context[0] /= 2  # the narrowest ends with half of it
    loss = 4 - np.log(np.maximum(STEPS, 1)) * np.where(STEPS > 300, 0.2, 0.1)
    losses = np.tile(loss[None, :, None], (arms, 1, seeds))
    prefix = np.full((arms, seeds, layers, heads), 0.05)
    prefix[..., 2, 0] = 0.9
    prefix[3, 1, 1, 1] = 0.95  # one seed has its best head in the layer before
    scores = {
        name: (("arm", "member", "layer", "head"), prefix * factor)
        for name, factor in (
            ("copying", 1.0),
            ("raised", 1.0),
            ("eigenvalues", 2.0),
            ("matching", 1.5),
            ("qk_trace", 9.0),
            ("before_after", -3.0),
        )
    }
    curve = ("arm", "step", "member")
    each = ("arm", "member")
    data = xr.Dataset(
        {
            "in_context": (curve, context),
            "loss": (curve, losses),
            "on_repeat": (curve, 3 + context),
            "on_break": (curve, 3 - 2 * context),
            "prefix": (("arm", "member", "layer", "head"), prefix),
            "jump_start": (each, np.full((arms, seeds), 200.0)),
            "jump_end": (each, np.full((arms, seeds), 300.0)),
            "alive": (each, np.ones((arms, seeds), bool)),
            "uniform": 3.5,
            **scores,
        },
        coords={
            "arm": ["a", "b", "c", "d"],
            "step": STEPS,
            "n_layers": ("arm", [2, 2, 2, 3]),
            "d_model": ("arm", [16, 32, 64, 32]),
        },
    )
    return Record(data=data)


def test_claims_are_settled_by_the_numbers_that_they_name() -> None:
    found, absent, not_run = measure(record())
    value = {name: estimate.value for name, estimate in found.items()}
    assert value["depth-last-3"] == 0.5 and value["depth-change"] == 1
    assert value["depth-gain"] == pytest.approx(-2) and value["depth-loss"] == pytest.approx(4)
    assert value["depth-score-alike"] == pytest.approx(0.5)
    assert value["depth-before-after"] == pytest.approx(-3 * (0.9 + (0.9 + 0.95) / 2) / 2)
    assert value["depth-before-after-others"] == pytest.approx(value["depth-before-after"] + 0.15)
    assert value["depth-corner-alone"] == 1
    assert value["depth-score-together"] == pytest.approx(1)
    assert value["depth-share-3"] == 1
    sizes = {"last-4", "last-5", "last-6", "change-deeper", "mlp-change", "mlp-share"}
    assert not absent and set(not_run) == {f"depth-{x}" for x in (*sizes, "mlp-matching")}


def falling(jump: list[float], whole: list[float]) -> np.ndarray:
    """Scores that fall by a jump from 200 to 300, and otherwise evenly but from 300 to 400."""
    each = (np.array(whole) - jump) / 4
    falls = np.stack([0 * each, each, each, np.array(jump), 0 * each, each, each])
    return -falls.cumsum(axis=0)


def larger() -> Record:
    """The same, with an arm of six layers whose second seed died, and one of MLPs."""
    data = record().data.pad(layer=(0, 3))
    six = data.isel(arm=[3]).assign_coords(arm=["six"], n_layers=("arm", [6]))
    six.prefix[0, 0, 5, 1] = 0.99
    six.alive[0, 1] = False
    mlps = data.isel(arm=[1]).assign_coords(arm=["mlps"])
    mlps.in_context[0] = falling([0.8, 1.5], [2.0, 2.0])
    mlps.prefix[0, 0] = 0.1
    parts = [part.assign_coords(d_mlp=("arm", [0] * part.sizes["arm"])) for part in (data, six)]
    parts.append(mlps.assign_coords(d_mlp=("arm", [128])))
    return Record(data=xr.concat(parts, "arm", data_vars="minimal"))


def test_deeper_models_and_mlps_have_claims_of_their_own_and_leave_the_others_alone() -> None:
    before, (found, absent, not_run) = measure(record()).estimates, measure(larger())
    value = {name: estimate.value for name, estimate in found.items()}
    assert value["depth-last-6"] == 1 and found["depth-last-6"].n == 1
    assert value["depth-change-deeper"] == 1 and found["depth-change-deeper"].n == 1
    assert value["depth-mlp-change"] == 0.5 and value["depth-mlp-matching"] == 0.5
    assert value["depth-mlp-share"] == pytest.approx((0.8 + 1.5) / 2 / 2)
    assert set(not_run) == {"depth-last-4", "depth-last-5"} and not absent
    same = set(before) - {"depth-score-alike", "depth-matching-copies"}  # which are of all sizes
    assert {name: found[name] for name in same} == {name: before[name] for name in same}


def test_models_whose_score_still_falls_say_nothing_of_a_change() -> None:
    made = larger()
    made.data.in_context[4, -1] -= 1
    found, absent, _ = measure(made)
    assert "depth-change-deeper" not in found
    assert absent == {
        "depth-change-deeper": "the score of only 0 of 1 models is level when training ends"
    }


def test_models_without_a_head_say_nothing_of_what_models_with_one_end_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measures, "DRAWS", 2)
    made = record()
    made.data["prefix"][2, 1] = 0.1
    made.data["in_context"][2, -1, 1] = 0.0
    same = measure(record()).estimates["depth-score-alike"]
    found = measure(made).estimates["depth-score-alike"]
    assert found.value == same.value == pytest.approx(0.5) and (found.n, same.n) == (7, 8)
    made.data["prefix"][2, 1, 2, 0] = 0.9
    assert measure(made).estimates["depth-score-alike"].value == pytest.approx(0.5)
    made.data["in_context"][2, -1] = 0.0
    assert measure(made).estimates["depth-score-alike"].value == 0
    made.data["prefix"][2] = 0.1
    assert measure(made).estimates["depth-score-alike"].value == pytest.approx(0.5)
    # The size of which no model has the head stands in its own place.
    (draw,) = nulls(made)["mismatched"]["depth-score-alike"]
    assert draw.value == 0


def test_tokens_that_change_beside_the_change_pass_as_those_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measures, "DRAWS", 2)
    made = record()
    drawn = nulls(made)["mismatched"]
    # Where all change at once, each is read through its own change.
    assert [draw.value for draw in drawn["depth-gain"]] == pytest.approx([-2, -2])
    for name, fall in (("on_repeat", -2), ("on_break", 4)):
        made.data[name][1, :, 1] = 3 + fall * (STEPS > 400)
    for name in ("jump_start", "jump_end"):
        made.data[name][1, 1] += 200
    assert measure(made).estimates["depth-gain"] == measure(record()).estimates["depth-gain"]
    drawn = nulls(made)["mismatched"]
    for name in ("depth-gain", "depth-loss"):
        assert [draw.value for draw in drawn[name]] == pytest.approx([0, 0]), name
    # A loss that rises evenly does so before the change and behind it as in it.
    made.data["on_break"][1] = (3 + 0.04 * STEPS)[:, None]
    both = nulls(made)["mismatched"]["depth-loss"]
    assert [draw.value for draw in both] == pytest.approx([4, 4])


def test_losses_as_large_keep_their_shape() -> None:
    second = record().data.sel(arm="b")
    small = second.assign(on_repeat=second.on_repeat / 10, on_break=second.on_break / 5)
    found = measures._of_tokens(as_large(small, second))
    assert [found[name].value for name in ("depth-gain", "depth-loss")] == pytest.approx([-2, 4])
    evenly = second.assign(on_repeat=3 - 0 * second.on_repeat - second.step / 1000)
    found = measures._of_tokens(as_large(evenly, second))
    assert found["depth-gain"].value == pytest.approx(-2 / 6)


def test_a_corner_that_half_of_it_makes_is_that_of_idle_heads_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measures, "DRAWS", 20)
    made, name = record(), "depth-corner-alone"
    matches = made.data.prefix[3] >= 0.4
    made.data["eigenvalues"][3] = xr.where(matches, 1.0, -1.0)
    made.data["matching"][3] = 1.0
    found = measure(made).estimates[name]
    assert found.value == found.high == 1
    assert [draw.value for draw in nulls(made)["permuted"][name] if draw] == [1] * 20
    made.data["matching"][3] = xr.where(matches, 1.0, 0.0)
    assert measure(made).estimates[name].value == 1
    drawn = [draw.value for draw in nulls(made)["permuted"][name] if draw]
    assert np.median(drawn) < 1, "QK scores of idle heads take matching ones out of the corner"


def test_a_head_in_the_corner_counts_in_layers_without_one_that_matches() -> None:
    made, name = record(), "depth-corner-alone"
    for kind in ("eigenvalues", "matching"):
        made.data[kind][3, 0, 1, 0] = 1
    # One of three others in one of two models.
    assert measure(made).estimates[name].value == pytest.approx(1 - 1 / 3 / 2)


def test_heads_whose_removal_costs_alike_undo_a_change_by_whatever_is_shuffled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measures, "DRAWS", 20)
    made, name = record(), "depth-before-after"
    drawn = [draw.value for draw in nulls(made)["permuted"][name]]
    assert max(drawn) > -1 > measure(made).estimates[name].value
    made.data["before_after"][3] = -3
    drawn = [draw.value for draw in nulls(made)["permuted"][name]]
    assert drawn == pytest.approx([measure(made).estimates[name].value] * len(drawn))


def test_heads_of_deeper_models_copy_or_not_as_well() -> None:
    made = larger()
    assert measure(made).estimates["depth-matching-copies"].n == 3
    made.data["copying"][4] *= -1
    assert measure(made).estimates["depth-matching-copies"].value == pytest.approx(2 / 3)


def test_scores_that_differ_between_layers_alone_do_not_go_together() -> None:
    made = record()
    made.data["prefix"][3] = [[[0.1, 0.1], [0.2, 0.4], [0.8, 0.9]]] * 2
    within = np.array([[0, 0], [2, 1], [9, 8]])
    made.data["copying"][3] = made.data["qk_trace"][3] = [within] * 2
    found, drawn = measure(made).estimates, nulls(made)["permuted"]
    for name in ("depth-score-together", "depth-evaluator-matching"):
        # By their layers the heads would go together, and in each of them they do not.
        assert found[name].value < -0.5, name
        assert abs(np.mean([draw.value for draw in drawn[name] if draw])) < 0.2, name


def test_heads_that_match_nothing_do_not_go_together_with_copying() -> None:
    made, name = record(), "depth-score-together"
    made.data["prefix"][3] = [[[0.05, 0.05], [0.02, 0.15], [0.5, 0.9]]] * 2
    # Where both heads of a layer match nothing, copying cannot rise with matching.
    made.data["copying"][3] = [[[0, 0], [0.1, 0.9], [0.2, 0.3]]] * 2
    half = measure(made).estimates[name].value
    made.data["copying"][3] = [[[0, 0], [0.9, 0.1], [0.2, 0.3]]] * 2
    assert measure(made).estimates[name].value == pytest.approx(half) and 0 < half < 0.5
    made.data["copying"][3] = [[[0, 0], [0.1, 0.1], [0.2, 0.9]]] * 2
    assert measure(made).estimates[name].value == pytest.approx(1)


def test_every_arm_is_drawn_in_a_panel_or_a_row() -> None:
    drawn = draw_all(FIGURES, larger())
    above, below = (drawn["curves"].axes[i].get_legend_handles_labels()[1] for i in (1, 3))
    assert above == ["a", "b", "c", "mlps", "uniform"]
    assert below == ["b", "d", "six", "uniform"]
    titles = [ax.get_title() for ax in drawn["tokens"].axes if ax.get_visible()]
    assert titles == ["a", "b", "c", "d", "six", "mlps"]
    titles = [ax.get_title() for ax in drawn["heads"].axes if ax.get_visible()]
    assert titles == ["d, 2 seeds", "six, 1 seeds"]


def test_a_width_that_died_takes_no_other_in_its_place() -> None:
    whole, dead = record(), record()
    for each in (whole, dead):
        each.data.on_repeat[2] *= 3  # the widest differs from the second
    dead.data.alive[0] = False
    found, absent, not_run = measure(dead)
    assert not absent and {"depth-order-before", "depth-order-after"} <= set(not_run)
    gain, same = found["depth-gain"], measure(whole).estimates["depth-gain"]
    assert gain == same, "of the second width, and not of the second that lives"
    below = curves(dead).axes[3].get_legend_handles_labels()[1]
    assert below == ["b", "d", "uniform"], "the width of all depths"
    dead.data.alive[1] = False
    assert {"depth-gain", "depth-loss"} <= set(measure(dead).not_run)


def test_every_arm_is_drawn_however_many_there_are() -> None:
    data = larger().data
    deep = [data.isel(arm=[3]).assign_coords(arm=[f"deep {n}"]) for n in range(9)]
    figure = curves(Record(xr.concat([data, *deep], "arm", data_vars="minimal")))
    below = figure.axes[3].get_legend_handles_labels()[1]
    assert below == ["b", "d", "six", *(f"deep {n}" for n in range(9)), "uniform"]


def test_arms_have_the_sizes_that_their_names_say() -> None:
    task = RepeatedSource(d_vocab=32, length=20, batch=2, min_period=4, max_period=8)
    model = TransformerSpec(d_vocab=32, n_ctx=20, n_heads=2)
    spec = Spec(model, (8, 16), (3, 5), mlp_depths=(2,), task=task)
    sizes = [(each.n_layers, each.d_model, each.d_mlp) for each in spec.arms().values()]
    bare = [(1, 16, None), (2, 8, None), (2, 16, None), (3, 16, None), (5, 16, None)]
    assert sizes == [*bare, (1, 16, 64), (2, 16, 64)]
    assert list(spec.arms())[-2:] == ["1 layer, 16 wide, MLPs", "2 layers, 16 wide, MLPs"]
    assert next(iter(replace(spec, mlp_depths=()).arms())) == "1 layer, 16 wide"


def test_models_of_one_layer_are_the_null_of_a_change_and_settle_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measures, "DRAWS", 2)
    data = larger().data
    one = data.isel(arm=[1]).assign_coords(arm=["one"], n_layers=("arm", [1]))
    one.in_context[0] = falling([0.2, 1.5], [0.25, 1.6])
    with_mlps = one.assign_coords(arm=["one, MLPs"], d_mlp=("arm", [128])).copy(deep=True)
    with_mlps.in_context[0] = falling([0.1, 0.1], [0.2, 0.2])
    both = Record(data=xr.concat([one, data, with_mlps], "arm", data_vars="minimal"))
    assert measure(both).estimates == measure(larger()).estimates
    drawn = nulls(both)["mismatched"]
    shares = {name: draws[0].value for name, draws in drawn.items() if "change" in name}
    # The step is 1.25 nats, five eighths of what two layers end with; one member of two has it.
    assert shares == {"depth-change": 0.5, "depth-change-deeper": 0.5, "depth-mlp-change": 0.0}
    mismatched = {name: draws[0].value for name, draws in drawn.items()}
    assert mismatched["depth-share-3"] == pytest.approx((0.2 / 0.25 + 1.5 / 1.6) / 2)
    alike = [draw.value for draw in drawn["depth-score-alike"]]
    assert alike == pytest.approx([(0.25 + 1.6) / 2 / 2, 0.2 / 2] * 6), "in each of six sizes"
    assert "depth-share-3" not in nulls(larger())["mismatched"], "it has no models of one layer"


def test_a_width_whose_change_comes_at_once_says_nothing_of_the_order_before() -> None:
    made = record()
    made.data["jump_start"][0] = 0
    found, absent, _ = measure(made)
    assert "depth-order-before" in absent
    assert {"depth-order-after", "depth-score-alike"} <= set(found)


def test_equal_shares_have_an_interval_and_a_head_that_erases_lowers_them() -> None:
    every = measure(record()).estimates["depth-matching-copies"]
    assert every.value == 1 and every.low < 0.95  # equal shares leave room in the interval
    made = record()
    made.data["copying"][-1] = -made.data["copying"][-1]
    assert measure(made).estimates["depth-matching-copies"].value < 1


def test_the_fall_for_each_factor_e_of_tokens_is_that_of_a_straight_line() -> None:
    part = record().data.sel(arm="a")
    found = slopes(part)
    np.testing.assert_allclose(found["before"], 0.1)
    fall = (4 - 0.1 * np.log(300)) - (4 - 0.2 * np.log(600))
    np.testing.assert_allclose(found["after"], fall / np.log(2))
    late = part.assign(jump_start=part.jump_start * 0)
    assert np.isnan(slopes(late)["before"]).all()


def test_the_same_curve_is_steeper_for_each_factor_e_of_tokens_where_it_comes_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measures, "DRAWS", 2)
    made = record()
    # A tenth of a nat every hundred steps, in all widths alike; the narrowest change last.
    made.data["loss"][:] = (5 - 0.001 * STEPS)[:, None]
    made.data["jump_end"][:] = 200.0
    made.data["jump_end"][0] = [400.0, 500.0]
    drawn = nulls(made)["false world"]["depth-order-after"]
    own = 0.4 / np.log(3)
    expected = [0.2 / np.log(600 / 400) - own, 0.1 / np.log(600 / 500) - own]
    np.testing.assert_allclose([draw.value for draw in drawn], expected, rtol=1e-5)


def test_a_vocabulary_without_a_symbol_left_is_refused() -> None:
    task = RepeatedSource(d_vocab=8, length=20, batch=2, min_period=4, max_period=8)
    with pytest.raises(ValueError, match="a symbol must be left"):
        Spec(TransformerSpec(d_vocab=8), task=task)


def test_heads_are_compared_with_others_of_their_layer() -> None:
    values = np.array([[3.0, 1.0, 0.5], [9.0, 8.0, 7.0], [5.0, 1.0, 4.0]])
    some = np.array([[True, False, False], [False, False, False], [True, False, True]])
    others = np.array([[False, True, False], [True, True, True], [False, True, False]])
    assert measures._lead_in_layers(values, some, others) == pytest.approx((2 + 3.5) / 2)
    assert np.isnan(measures._lead_in_layers(values[:2], some[1:], others[1:] & False))
    steps = np.array([[0.1, 0.2, 0.3], [0.8, 0.7, 0.6]])
    assert measures._ranks_in_layers(steps, steps) == pytest.approx(1)
    # Layers alone do not correlate: within each, one rises where the other falls.
    assert measures._ranks_in_layers(steps, steps[:, ::-1]) < -0.9
