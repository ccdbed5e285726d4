"""Attacks, privileged bases, absolute values and dictionaries: specs, measures and figures."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_rgb
from scipy.stats import spearmanr

from circuitax.kernel.weights import TiedWeights
from circuitax.records.estimate import Estimate
from circuitax.records.record import Record
from circuitax.superposition.features import (
    NeuronClass,
    neuron_classes,
    neurons_per_feature,
)
from circuitax.superposition.hidden_layers import asymmetric_motif
from experiments.superposition.toy_abs import experiment as toy_abs
from experiments.superposition.toy_abs import figure as abs_figure
from experiments.superposition.toy_abs import measures as abs_measures
from experiments.superposition.toy_adversarial import experiment as toy_adversarial
from experiments.superposition.toy_adversarial import figure as adversarial_figure
from experiments.superposition.toy_adversarial import measures as adversarial_measures
from experiments.superposition.toy_privileged import experiment as toy_privileged
from experiments.superposition.toy_privileged import figure as privileged_figure
from experiments.superposition.toy_privileged import measures as privileged_measures
from experiments.superposition.toy_sae import experiment as toy_sae
from experiments.superposition.toy_sae import measures as sae_measures

RESULTS = Path(__file__).parents[3] / "results"


def accepted(name: str) -> Record:
    return Record.load(RESULTS / name / "accepted")


@pytest.mark.parametrize(
    ("module", "fields", "message"),
    [
        (toy_adversarial, {"n_hidden": 64}, "n_hidden=64 must be at least 1 and below n_features"),
        (toy_adversarial, {"defence": (0.0, 1.5)}, "defence=.* must all be from 0 to 1"),
        (toy_privileged, {"density": (0.5, 0.0)}, "density=.* must all be above 0 and at most 1"),
        (toy_privileged, {"restarts": 1}, "restarts=1 must be at least 2"),
        (toy_abs, {"init_scale": 0.0}, "init_scale=0.0 must be positive"),
        (toy_abs, {"chunk": 7}, "chunk=7 must divide optim.steps"),
        (toy_sae, {"active": (1, 2)}, "active=.* must be as long as penalties"),
        (toy_sae, {"density": 0.6}, "density=0.6 must be above 0 and at most 0.5"),
    ],
)
def test_a_spec_refuses(module: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        module.Spec(**fields)


def test_the_same_network_is_attacked_at_other_inputs_in_another_seed() -> None:
    spec = toy_adversarial.Spec(n_features=6, n_hidden=2, samples=16, ascent_steps=1)
    W = np.random.default_rng(0).normal(size=(2, 6)).astype(np.float32)
    three = TiedWeights(np.tile(W, (1, 3, 1, 1)), np.zeros((1, 3, 6), np.float32))
    density = np.array([0.5])
    found = toy_adversarial._attacked(spec, jax.random.key(0), three, density)
    assert len(np.unique(found["loss"])) == len(np.unique(found["analytic"])) == 3
    first = TiedWeights(three.W[:, :1], three.b[:, :1])
    alone = toy_adversarial._attacked(spec, jax.random.key(0), first, density)
    np.testing.assert_allclose(alone["loss"], found["loss"][:, :1], rtol=1e-6)


def test_vulnerability_is_read_from_the_densest_and_the_sparsest_cell() -> None:
    record = accepted("toy_adversarial")
    data = record.data
    rise = data.analytic.sel(density=data.density.min()) / data.analytic.sel(density=1.0)
    found = adversarial_measures.measure(record).estimates
    product = np.prod(rise.values.astype(np.float64) / 30)
    wanted = 30 * product ** (1 / rise.size)
    assert found["adversarial-rise"].value == pytest.approx(wanted, rel=1e-6)
    assert found["adversarial-bound"].value <= 1
    turned = Record(data.isel(density=slice(None, None, -1)), record.notes)
    again = adversarial_measures.measure(turned).estimates
    assert again["adversarial-rise"].value == pytest.approx(found["adversarial-rise"].value)


def test_the_curve_of_vulnerability_is_the_mean_over_seeds() -> None:
    record = accepted("toy_adversarial")
    line = adversarial_figure.vulnerability(record).axes[0].lines[0]
    order = np.argsort(line.get_xdata())
    wanted = record.data.analytic.transpose("density", "seed").mean("seed").values
    np.testing.assert_allclose(
        np.asarray(line.get_ydata())[order], wanted[np.argsort(1 / record.data.density.values)]
    )


def test_claims_about_eighty_per_cent_need_such_attacks() -> None:
    record = accepted("toy_adversarial")
    assert not adversarial_measures.measure(record).not_run
    weaker = Record(record.data.isel(defence=slice(0, -1)), record.notes)
    found = adversarial_measures.measure(weaker).not_run
    assert set(found) == {
        "adversarial-training",
        "adversarial-training-removes",
        "adversarial-training-shrinks",
    }
    assert "from 0 to 0.4" in found["adversarial-training"]


def test_an_attack_by_gradient_is_judged_where_half_of_the_gradients_are_masked() -> None:
    record = accepted("toy_adversarial")
    sparsest = record.data.density == record.data.density.min()
    share = float(record.data.masked.where(sparsest, drop=True).mean())
    (claim, why), *none = adversarial_measures.measure(record).unmet.items()
    assert (claim, none) == ("adversarial-gradient-fails", [])
    assert f"{share:.0%} of inputs have none" in why
    for share, unmet in ((0.49, 1), (0.5, 0)):
        masked = record.data.masked.where(~sparsest, share)
        changed = Record(record.data.assign(masked=masked), record.notes)
        assert len(adversarial_measures.measure(changed).unmet) == unmet


def test_superposition_is_counted_by_features_and_not_by_their_norms() -> None:
    record = accepted("toy_adversarial")
    data = record.data
    kept = data.defended_kept_per_dimension.transpose("seed", "defence").values
    found = adversarial_measures.measure(record).estimates
    assert found["adversarial-training-removes"].value == pytest.approx(kept[:, -1].mean())
    ratio = (kept[:, -1] / kept[:, 0]).mean()
    assert found["adversarial-training"].value == pytest.approx(ratio)
    nulls = adversarial_measures.nulls(record)
    (without,) = nulls["false world"]["adversarial-training-removes"]
    assert isinstance(without, Estimate) and without.value == pytest.approx(kept[:, 0].mean())


def test_vulnerability_is_held_against_features_among_the_seeds_of_a_density() -> None:
    record = accepted("toy_adversarial")
    data, name = record.data, "adversarial-tracks"
    by_density = [
        spearmanr(data.analytic.sel(density=p), data.kept_per_dimension.sel(density=p))[0]
        for p in data.density
    ]
    found = adversarial_measures.measure(record).estimates[name]
    assert found.value == pytest.approx(np.mean(by_density)) and found.n == data.sizes["seed"]
    # A density's own level of vulnerability decides nothing, and its seeds all.
    raised = data.assign(analytic=data.analytic + 100 * data.density)
    again = adversarial_measures.measure(Record(raised, record.notes)).estimates[name]
    assert again.value == pytest.approx(found.value, abs=1e-3)
    # Seeds that all keep as many have no correlation.
    alike = data.assign(kept_per_dimension=xr.ones_like(data.kept_per_dimension))
    again = adversarial_measures.measure(Record(alike, record.notes)).estimates[name]
    assert again.value == 0
    draws = adversarial_measures.nulls(record)["permuted"][name]
    assert all(isinstance(one, Estimate) and abs(one.value) < 0.2 for one in draws)


def test_neurons_of_a_start_are_counted_as_those_of_the_record() -> None:
    W = np.random.default_rng(0).normal(0, 0.4, (30, 5, 10))
    W[0, 0], W[1, 2], W[2, :, 3] = 0.0, np.eye(10)[4], 0.5
    found = privileged_measures.counts(W, 0.5)
    for i, one in enumerate(jnp.asarray(W)):
        kinds = neuron_classes(one)
        assert found["monosemantic"][i] == (kinds == NeuronClass.monosemantic).sum()
        assert found["polysemantic"][i] == (kinds == NeuronClass.polysemantic).sum()
        assert found["paired"][i] == pytest.approx(float((neurons_per_feature(one) == 2).mean()))
        assert found["represented"][i] == (np.linalg.norm(W[i], axis=0) > 0.5).sum()
    assert found["monosemantic"].max() == 1 and found["polysemantic"].min() < 5


def test_no_seed_is_judged_at_a_strength_that_was_chosen_on_itself() -> None:
    # Two strengths: the first is best for even seeds, the second for odd ones.
    cosine = np.array([[0.9, 0.2, 0.8, 0.4], [0.1, 0.7, 0.3, 0.6]])
    data = xr.Dataset(
        {"cosine": (("kind", "strength", "seed"), cosine[None])}, {"strength": [0, 1]}
    )
    best = sae_measures.at_best_strength(data)
    np.testing.assert_array_equal(best.cosine.values, [[0.1, 0.2, 0.3, 0.4]])
    alone = sae_measures.at_best_strength(data.isel(seed=[0]))
    np.testing.assert_array_equal(alone.cosine.values, [[0.9]])


def test_what_shrinks_no_codes_is_the_null_of_shrinkage() -> None:
    record = accepted("toy_sae")
    data, wanted = record.data.sel(target="small"), []
    for kind, strength in (("topk", 0), ("jumprelu", -1), ("relu", -1)):
        cell = data.sel(kind=kind).isel(strength=strength)
        wanted.append(cell.norm_ratio.values[cell.cosine.values >= 0.99].mean())
    draws = sae_measures.nulls(record)["mismatched"]["sae-shrinkage"]
    found = sae_measures.measure(record).estimates["sae-shrinkage"]
    values = [*(one.value for one in draws if isinstance(one, Estimate)), found.value]
    assert values == pytest.approx(wanted)


def test_jumprelu_and_the_best_of_chance_are_the_null_of_finding_directions() -> None:
    record = accepted("toy_sae")
    cosine = sae_measures.at_best_strength(record.data).cosine.sel(target="large")
    jump, chance = sae_measures.nulls(record)["mismatched"]["sae-large-relu"]
    assert isinstance(jump, Estimate) and isinstance(chance, Estimate)
    assert jump.value == pytest.approx(float(cosine.sel(kind="jumprelu").mean()))
    assert 0.6 < chance.value < 0.7


def test_one_mixed_neuron_takes_a_dense_seed_out_and_lowers_the_share_of_a_sparser_one() -> None:
    record = accepted("toy_abs")
    pure = record.data.sweep_pure.transpose("sweep_density", "sweep_seed", "sweep_neuron").copy()
    live = record.data.sweep_live.transpose(*pure.dims).values
    dense, sparser = (int(np.argmin(abs(record.data.sweep_density.values - p))) for p in (1, 0.1))
    for i in (dense, sparser):
        pure[i] = live[i]
        pure[i, 3, np.flatnonzero(live[i, 3])[0]] = False
    found = abs_measures.measure(Record(record.data.assign(sweep_pure=pure), record.notes))
    n = live.shape[1]
    assert live[[dense, sparser]].any(axis=-1).all()
    assert found.estimates["abs-mono-p1"].value == (n - 1) / n
    missing = 1 / live[sparser, 3].sum() / n
    assert found.estimates["abs-mono-p0.1"].value == pytest.approx(1 - missing)


def test_a_neuron_is_highly_polysemantic_from_three_even_features_on() -> None:
    record = accepted("toy_abs")
    data, at = record.data, int(np.argmin(abs(record.data.sweep_density.values - 0.03)))
    live = data.sweep_live.values[at, int(data.sweep_best[at])].astype(bool)
    used = np.flatnonzero(live)
    W = data.sweep_W_in.transpose("sweep_density", "sweep_feature", "sweep_neuron").copy()
    W[at] = 0.1 * np.eye(*W.shape[1:])
    W[at, :, used[:4]] = 0
    W[at, 60:63, used[:4]] = [[1.0] * 4, [1.0] * 4, [-1.1] * 4]  # uneven: below three features
    W[at, 70:74, used[:3]] = 1.0
    found = abs_measures.measure(Record(data.assign(sweep_W_in=W), record.notes)).estimates
    assert found["abs-mono-p0.03"].value == pytest.approx(3 / len(used))
    assert found["abs-mono-unimportant"].value > 30


def test_a_growth_in_every_seed_is_told_from_differences_to_either_side() -> None:
    record = accepted("toy_abs")
    data = record.data.assign(case_seed=0 * record.data.case_seed)  # draws of motifs take long
    dims, name = ("sweep_density", "sweep_seed", "sweep_neuron"), "abs-mono-falls"
    live = np.ones(data.sweep_pure.transpose(*dims).shape, bool)
    denser, sparser = (int(np.argmin(abs(data.sweep_density.values - p))) for p in (0.03, 0.01))
    n = live.shape[2]
    for seeds, growth in ((slice(None), 0.5), (slice(None, None, 2), 0.0)):
        pure = live.copy()
        pure[denser, :, n // 2 :] = False
        pure[denser, seeds] = True
        pure[sparser] = ~pure[denser] if growth == 0 else False
        pure[sparser, :, : n // 2] = True
        changed = data.assign(sweep_live=(dims, live), sweep_pure=(dims, pure))
        altered = Record(changed, record.notes)
        found = abs_measures.measure(altered).estimates[name]
        draws = abs_measures.nulls(altered)["permuted"][name]
        assert found.value == pytest.approx(growth)
        assert (found.low >= 0.1) == (growth > 0)
        assert np.mean([isinstance(one, Estimate) and one.low >= 0.1 for one in draws]) < 0.05


def test_as_many_polysemantic_neurons_do_not_grow_where_the_others_vanish() -> None:
    data = accepted("toy_abs").data.copy(deep=True)
    denser, sparser = (int(np.argmin(abs(data.sweep_density.values - p))) for p in (0.03, 0.01))
    data.sweep_pure[sparser] = False
    data.sweep_live[sparser] = data.sweep_live[denser] & ~data.sweep_pure[denser]
    share = abs_measures.monosemantic(data)
    assert share[denser].mean() > 0.3 and (share[sparser] == 0).all()
    assert (abs_measures._growth(data) == 0).all()
    data.sweep_loss[sparser][5] = np.nan
    assert len(abs_measures._growth(data)) == data.sizes["sweep_seed"] - 1


def test_ratios_of_a_null_are_spread_evenly_up_to_what_nearly_all_stay_below() -> None:
    record = accepted("toy_abs")
    nulls = abs_measures.nulls(record)["random"]
    for end in ("in", "out"):
        drawn = [np.log(draw.value) for draw in nulls[f"abs-motif-{end}"]]
        even = np.linspace(1.5, np.quantile(record.data[f"case_{end}_ratio"].values, 0.95), 10_001)
        assert np.mean(drawn) == pytest.approx(abs(np.log(even / 4)).mean(), abs=0.005)


def test_a_motif_misses_the_printed_ratio_by_a_factor_to_either_side() -> None:
    record = accepted("toy_abs")
    data = record.data
    first = data.case_seed.values == data.case_seed.values[0]
    ratio = np.where(first, 2.0, 8.0)
    ratio[-1] = 4.0
    found = abs_measures.measure(Record(data.assign(case_in_ratio=("case", ratio)), record.notes))
    last = (data.case_seed.values == data.case_seed.values[-1]).sum()
    networks = len(np.unique(data.case_seed.values))
    factor = 2 ** ((networks - 1 / last) / networks)
    assert found.estimates["abs-motif-in"].value == pytest.approx(factor)


def test_motifs_of_a_null_are_found_as_those_of_the_record() -> None:
    rng = np.random.default_rng(0)
    shape = (30, 8, 16)
    W_in = rng.normal(size=shape) * (rng.random(shape) < 0.7)
    W_out = rng.normal(size=shape)
    wanted = [
        asymmetric_motif(jnp.asarray(one.T), jnp.asarray(out)).found.any()
        for one, out in zip(W_in, W_out, strict=True)
    ]
    assert 3 < sum(map(bool, wanted)) < 27
    np.testing.assert_array_equal(abs_measures.has_motif(W_in, W_out), np.array(wanted))


def test_networks_of_pure_neurons_have_no_motif_and_mixed_ones_may() -> None:
    data = accepted("toy_abs").data.isel(motif_seed=slice(4))
    pure, mixed = np.ones(data.motif_pure.shape, bool), np.zeros(data.motif_pure.shape, bool)
    for is_pure, least, most in ((pure, 0, 0), (mixed, 1, 8)):
        given = data.assign(
            motif_pure=(data.motif_pure.dims, is_pure),
            motif_live=(data.motif_live.dims, np.ones_like(is_pure)),
        )
        drawn = abs_measures.random_cases(given, np.random.default_rng(0))
        cases = set(zip(drawn.case_cell.values, drawn.case_seed.values, strict=True))
        assert least <= len(cases) <= most


def test_monosemantic_neurons_come_first_in_the_picture() -> None:
    record = accepted("toy_privileged")
    figure = privileged_figure.weights(record)
    shown = np.asarray(figure.axes[1].images[0].get_array())
    share = (shown**2).max(axis=1) / (shown**2).sum(axis=1)
    assert (share[:3] > 0.9).all() and (share[3:] < 0.9).all()
    assert "3 mono, 2 poly" in figure.axes[1].get_title()


def test_the_best_restart_decides_and_all_are_counted() -> None:
    record = accepted("toy_privileged")
    found = privileged_measures.measure(record).estimates
    assert found["privileged-mono-p0.35"].value == 3
    loss = record.data.loss
    within = (loss <= 1.01 * loss.min("restart")).sel(density=[0.15, 0.12, 0.06, 0.03])
    assert found["privileged-best-is-rare"].value == pytest.approx(float(within.mean()))
    assert found["privileged-best-is-rare"].n == loss.sizes["restart"]


def test_a_represented_feature_comes_back_as_itself() -> None:
    # The fourth feature is too short to count; the third shares the second neuron.
    W, none = np.array([[1.0, 0, 0, 0.2], [0, 1, 0.8, 0], [0, 0, 0.7, 0]]), np.zeros(4)
    assert privileged_measures.all_come_back(W[None], none, 0.5).all()
    off, other = W.copy(), W.copy()
    off[0, 0] = -1  # a norm of 1, and nothing comes out
    other[2, 2] = 0  # 0.64 comes out, and 0.8 of the second feature
    for lost, b in ((off, none), (other, none), (W, none - 0.6), (-W, none + 1)):
        assert not privileged_measures.all_come_back(lost[None], b, 0.5).any()


def test_counts_of_the_best_network_need_features_that_come_back() -> None:
    record = accepted("toy_privileged")
    best = {"density": 0.15}
    W, pure = (record.data[f"best_{name}"].sel(best).values for name in ("W", "monosemantic"))
    reversed_pure, hidden, doubled = W.copy(), W.copy(), W.copy()
    reversed_pure[pure.argmax()] *= -1
    hidden[:, 6] = -np.abs(W[:, 6])
    doubled[:, 6] = 0.9 * W[:, 3]
    found = []
    for one in (W, hidden, doubled, reversed_pure):
        data = record.data.copy(deep=True)
        data.best_W.loc[best] = one
        estimates = privileged_measures.measure(Record(data, record.notes)).estimates
        names = ("privileged-features-p0.15", "privileged-mono-p0.15")
        found.append(tuple(estimates[name].value for name in names))
        # By norms and purity they are all alike.
        counted = privileged_measures.counts(one[None], 0.5)
        kinds = ("represented", "monosemantic", "polysemantic")
        assert [counted[kind] for kind in kinds] == [7, 2, 3]
    assert found == [(1, 2), (0, 2), (0, 2), (0, 1)]


def test_features_drawn_anew_keep_their_counts_and_do_not_come_back() -> None:
    data = accepted("toy_privileged").data.sel(density=0.35)
    W, b = privileged_measures.shared_anew(data, np.random.default_rng(0))
    lengths = np.linalg.norm(data.best_W, axis=0)
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), lengths + 0 * W[:, 0], rtol=1e-5)
    counted = privileged_measures.counts(W, 0.5)
    same = (counted["represented"] == 6) & (counted["monosemantic"] == 3)
    assert same.mean() > 0.9
    assert privileged_measures.as_printed(0.35, W, b, 0.5).mean() < 0.05


def test_a_feature_needs_one_neuron_for_either_side() -> None:
    W_in = np.array([[1.0, -1.0, 0, 0], [0, 0, 1.0, 2.0]])
    W_out = np.array([[1.0, 0], [0.9, 0], [0, 1.0], [0, 0.5]])
    assert abs_measures.both_sides(W_in, W_out).tolist() == [True, False]
    W_in[1, 3] = -2
    assert abs_measures.both_sides(W_in, W_out).tolist() == [True, True]
    reads, writes = W_in.copy(), W_out.copy()
    reads[0, 3], writes[2, 0] = 1, 0.5  # a fifth of what a neuron reads, or writes, is of another
    assert abs_measures.both_sides(reads, W_out).tolist() == [True, False]
    assert abs_measures.both_sides(W_in, writes).tolist() == [True, False]


def test_small_networks_of_shared_neurons_have_none_for_a_feature_alone() -> None:
    data = accepted("toy_abs").data
    worlds = list(abs_measures._shared(data, np.random.default_rng(0)))
    assert abs_measures._two_each(data).value == 3
    assert [abs_measures._two_each(world).value for world in worlds] == [0, 0, 0, 0]
    # Each of them still does something for every feature, on both of its sides.
    for world in worlds:
        W_in, W_out = (world[f"sanity_W_{end}"].isel(sanity_density=0) for end in ("in", "out"))
        for side in (1, -1):
            served = ((side * W_in).clip(min=0) * W_out).max("sanity_neuron") > 0.5
            assert served.isel(sanity_seed=int(data.sanity_best[0])).all()


def test_neurons_that_are_not_used_are_grey() -> None:
    record = accepted("toy_abs")
    figure = abs_figure.neurons(record)
    sparsest = figure.axes[record.data.sizes["sweep_density"] - 1]
    live = record.data.sweep_live.values[-1, int(record.data.sweep_best[-1])]
    (bars,) = sparsest.collections
    # One row of bars a neuron, one bar a feature.
    colours = bars.get_facecolor().reshape(len(live), -1, 4)[:, 0, :3]
    grey = [tuple(colour) == pytest.approx(to_rgb("#8A8A8A"), abs=1e-3) for colour in colours]
    assert sum(grey) == int((~live).sum()) > 0


def test_a_neuron_is_a_stack_as_high_as_its_weights() -> None:
    record = accepted("toy_abs")
    ax = abs_figure.neurons(record).axes[0]
    W = np.abs(record.data.sweep_W_in.values[0])
    heights = (W / W.max(axis=0)).sum(axis=0)
    (bars,) = ax.collections
    corners = np.array([path.vertices[:4] for path in bars.get_paths()])
    stacks = corners.reshape(W.shape[1], -1, 4, 2)
    np.testing.assert_allclose(np.sort(stacks[:, -1, 2, 1]), np.sort(heights), rtol=1e-5)
    np.testing.assert_allclose(stacks[:, 1:, 0, 1], stacks[:, :-1, 3, 1], atol=1e-6)
    np.testing.assert_allclose(stacks[:, :, :, 0].mean(axis=(1, 2)), np.arange(W.shape[1]))
