"""The recipe of the text models: best rates by hand, what is refused, and what figures say."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy.special import logsumexp

from circuitax.config.catalogue import discover
from circuitax.config.planned_runs import plan
from circuitax.figures.spec import draw_all
from circuitax.kernel.forward import batch_logits
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.spec import TransformerSpec
from circuitax.lab.lab import Lab
from circuitax.models.parameters import draw_parameters, transformer_parameters
from circuitax.models.transformer import init as init_model
from circuitax.records.record import Record
from circuitax.training.optim import Optimizer, OptimSpec
from experiments.one_layer.text_recipe.best import best_index, best_rate, nearest
from experiments.one_layer.text_recipe.claims import CLAIMS
from experiments.one_layer.text_recipe.ends import Bench, end_losses, scaled_maps
from experiments.one_layer.text_recipe.experiment import (
    Setting,
    Spec,
    arm_optim,
    optim_of,
    settings,
)
from experiments.one_layer.text_recipe.figure import (
    FIGURES,
    rates,
    rates_message,
    sweeps,
    sweeps_message,
)
from experiments.one_layer.text_recipe.measures import measure, nulls

RATES = np.array([5e-3, 1e-2, 2e-2, 4e-2, 8e-2])
MODEL = TransformerSpec(d_vocab=512, n_ctx=16, n_layers=1, n_heads=4, d_model=64)
RECIPE = OptimSpec(Optimizer.adam, weight_decay=0.0, warmup_steps=50, steps=400)


def parabola(rates: np.ndarray, best: float, low: float, bend: float) -> np.ndarray:
    return low + bend * np.log2(rates / best) ** 2


def test_the_best_rate_lies_between_those_that_were_tried() -> None:
    truth = [(1.7e-2, 3.0, 0.04), (2.6e-2, 3.1, 0.05)]
    losses = np.stack([parabola(RATES, *seed) for seed in truth], axis=1)
    found = best_rate(RATES, losses)
    assert found.place == 2 and found.inside
    np.testing.assert_allclose(found.rate, [1.7e-2, 2.6e-2], rtol=1e-9)
    np.testing.assert_allclose(found.loss, [3.0, 3.1], rtol=1e-9)
    np.testing.assert_allclose(found.curvature, [0.04, 0.05], rtol=1e-9)


def test_an_optimum_at_an_end_is_taken_as_it_is() -> None:
    falling = np.stack([parabola(RATES, 1.0, 3.0, 0.04)] * 2, axis=1)
    found = best_rate(RATES, falling)
    assert found.place == 4 and not found.inside and np.isnan(found.curvature).all()
    np.testing.assert_array_equal(found.rate, RATES[-1])
    np.testing.assert_array_equal(found.loss, falling[-1])
    # A rate at which one seed diverged is neither chosen nor fitted.
    falling[-1, 0] = np.nan
    assert best_rate(RATES, falling).place == 3 and not best_rate(RATES, falling).inside
    with pytest.raises(ValueError, match="losses must be finite in all seeds at one rate"):
        best_index(np.full((2, 2), np.nan))


def test_a_seed_whose_curve_bends_down_is_best_at_an_end_of_it() -> None:
    losses = np.stack([parabola(RATES, 2e-2, 3.0, 0.3), [9, 3.1, 3.2, 3.15, 9]], axis=1)
    found = best_rate(RATES, losses)
    assert found.rate[1] == pytest.approx(1e-2) and found.loss[1] == pytest.approx(3.1)


@pytest.mark.parametrize(
    ("index", "n", "wanted"),
    [(2, 3, [1, 2, 3]), (0, 3, [0, 1, 2]), (4, 3, [2, 3, 4]), (3, 1, [3]), (1, 2, [0, 1])],
)
def test_the_rates_around_the_best(index: int, n: int, wanted: list[int]) -> None:
    assert list(range(5))[nearest(index, n, 5)] == wanted


def test_scaled_maps_are_those_of_a_larger_init_scale() -> None:
    spec = MODEL.replace(d_mlp=8, biases=True, positions="learned")
    key = jax.random.key(0)
    wanted = draw_parameters(key, transformer_parameters(spec.replace(init_scale=2.0)))
    found = scaled_maps(draw_parameters(key, transformer_parameters(spec)), 2.0)
    for name, leaf in wanted.items():
        np.testing.assert_allclose(found[name], leaf, rtol=1e-6, err_msg=name)


def test_losses_are_those_of_each_seed_at_each_rate(tmp_path: Path) -> None:
    sizes = TransformerSpec(d_vocab=11, n_ctx=8, n_layers=1, n_heads=2, d_model=8)
    tokens = np.random.default_rng(0).integers(0, 11, 500)
    windows = tokens[:24].reshape(3, 8)
    bench = Bench(Lab(tmp_path), jnp.asarray(tokens), jnp.asarray(windows), seeds=2)
    key, optim = jax.random.key(3), OptimSpec(Optimizer.adam, weight_decay=0.0, steps=4)
    how = {"batch": 2, "init": 2.0}
    still, moved = end_losses(bench, "two", key, sizes, optim, rates=np.array([1e-9, 0.1]), **how)
    for found, init_key in zip(still, member_keys(derive(key, "init"), 2), strict=True):
        model = init_model(init_key, sizes.replace(init_scale=2.0))
        logits = np.asarray(batch_logits(model, jnp.asarray(windows)), float)[:, :-1]
        chosen = np.take_along_axis(logits, windows[:, 1:, None], axis=2)[..., 0]
        assert found == pytest.approx((logsumexp(logits, axis=2) - chosen).mean(), rel=1e-5)
    assert (np.abs(moved - still) > 1e-2).all()
    # What else is in the ensemble changes nothing.
    (alone,) = end_losses(bench, "one", key, sizes, optim, rates=np.array([0.1]), **how)
    np.testing.assert_allclose(alone, moved, rtol=1e-5)


def test_settings_differ_from_the_recipe_in_one_thing_at_equal_tokens() -> None:
    spec = Spec(model=MODEL, optim=RECIPE, batches=(16, 32, 64))
    found = list(settings(spec))
    base = Setting(50, 32, 64, 1.0)
    assert next(s for sweep, s in found if sweep == "batch") == Setting(50, 16, 64, 1.0)
    for sweep, setting in found:
        others = set(Setting._fields) - {sweep}
        assert all(getattr(setting, name) == getattr(base, name) for name in others)
    half = optim_of(spec, base._replace(batch=16))
    assert (half.steps, half.warmup_steps) == (800, 100)
    double = optim_of(spec, base._replace(batch=64))
    assert (double.steps, double.warmup_steps) == (200, 25)
    several = Spec(
        model=MODEL,
        optim=RECIPE,
        optimizers=("adam", "muon"),
        decays=(0.0, 0.1),
        momenta=(0.0, 0.95),
        rates=((1e-2,), (1e-3, 1e-2)),
        sweep_rates=1,
    )
    assert arm_optim(several, 0) == RECIPE
    muon = arm_optim(several, 1)
    assert (muon.name, muon.weight_decay, muon.momentum) == (Optimizer.muon, 0.1, 0.95)
    assert muon.warmup_steps == 50


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"optimizers": ("adagrad",)}, r"optimizers=\('adagrad',\) must be one or more of"),
        ({"optimizers": ("sgd",)}, r"optimizers=\('sgd',\) must begin with the recipe's, adam"),
        ({"decays": ()}, r"decays=\(\) must be as long as optimizers="),
        ({"rates": ((1e-2, 5e-3),)}, "rates=.* must hold increasing positive rates"),
        ({"recipe_rates": (3e-2,)}, r"recipe_rates=\(0.03,\) must be among the rates of adam"),
        ({"warmups": (0, 10)}, r"warmups=\(0, 10\) must hold the recipe's, 50"),
        ({"widths": (32,)}, r"widths=\(32,\) must hold the recipe's, 64"),
        ({"widths": (63, 64)}, "n_heads=4 must divide d_model=63"),
        ({"batches": (32, 48)}, r"batches=\(32, 48\) must divide the 12800 windows"),
        ({"warmups": (50, 500)}, r"warmup_steps=500 must be in \[0, steps\], steps=400"),
        ({"inits": (0.0, 1.0)}, r"inits=.* must all be positive"),
        ({"sweep_rates": 4}, "sweep_rates=4 must be from 1 to the 3 rates of adam"),
        ({"momenta": (0.9,)}, "momentum=0.9 must be 0 for adam"),
    ],
)
def test_what_cannot_be_tried_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spec(**{"model": MODEL, "optim": RECIPE} | fields)


@pytest.mark.parametrize("scale", ["quick", "evening"])
def test_the_recipe_is_that_of_the_text_models(scale: str) -> None:
    entries = discover()
    (recipe,), (models,) = (
        plan([f"experiment={name}", f"scale={scale}"], entries)[1]
        for name in ("text_recipe", "text_models")
    )
    used, there = recipe.spec, models.spec
    rates = [there.optim.learning_rate * factor for factor in there.depth_rates]
    assert used.recipe_rates == pytest.approx(rates)
    assert recipe.settings.seed != models.settings.seed
    if scale == "evening":
        assert used.seeds >= max(claim.n for claim in CLAIMS) and used.sweep_rates == 3
        same = {"learning_rate": 1.0, "steps": 1000}
        assert replace(used.optim, **same) == replace(there.optim, **same)
        assert (used.model, used.batch, used.task) == (there.model, there.batch, there.task)


def tried() -> Record:
    """Two depths, two optimizers and two dials, three seeds, with optima that are known."""
    seeds = np.array([-0.01, 0.0, 0.01])
    adam = np.stack([parabola(RATES, 2e-2, low, 0.05) for low in (3.6, 2.9)])
    muon = np.stack([parabola(RATES, 1e-2, low, 0.05) for low in (3.6, 2.8)])
    muon[:, 4] = np.nan
    loss = np.stack([adam, muon], axis=1)[..., None] + seeds
    rates = np.stack([RATES, RATES])
    rates[1, 4] = np.nan
    # Twice the batch is as good at twice the rate; half the maps gain 0.03 at every rate.
    near = parabola(RATES[1:4], 2e-2, 0.0, 0.05)
    batch = np.stack([near, parabola(RATES[1:4], 4e-2, 0.0, 0.05)])
    init = np.stack([near - 0.03, near])
    sweep = (
        np.stack([batch, init])[None, ..., None] + np.array([3.6, 2.9])[:, None, None, None, None]
    )
    return Record(
        xr.Dataset(
            {
                "loss": (("model", "optimizer", "rate", "seed"), loss),
                "learning_rate": (("optimizer", "rate"), rates),
                "recipe_rate": ("model", [4e-2, 2e-2]),
                "sweep_loss": (("model", "sweep", "value", "near", "seed"), sweep + seeds),
                "sweep_value": (("sweep", "value"), [[32.0, 64.0], [0.5, 1.0]]),
                "recipe_value": ("sweep", [32.0, 1.0]),
                "near_rate": (("model", "near"), np.stack([RATES[1:4]] * 2)),
            },
            coords={
                "model": ["layers-0", "layers-1"],
                "optimizer": ["adam", "muon"],
                "sweep": ["batch", "init"],
            },
        ),
        notes={"tokens": 1_000_000},
    )


def test_what_is_measured_is_what_was_put_in() -> None:
    measured = measure(tried())
    found = measured.estimates
    assert found["recipe-rate-0"].value == pytest.approx(0.05)
    assert found["recipe-rate-1"].value == 0 and found["recipe-rate-1"].n == 3
    # Differences within seeds: the spread between seeds is no part of them.
    assert found["recipe-muon-1"].value == pytest.approx(0.1)
    assert found["recipe-muon-1"].high - found["recipe-muon-1"].low < 1e-9
    assert found["recipe-flat-1"].value == pytest.approx(0.05)
    assert found["rate-layers-1-muon"].value == pytest.approx(1e-2)
    assert found["loss-layers-1-adam"].value == pytest.approx(2.9)
    assert found["recipe-batch"].value == pytest.approx(0)
    assert found["recipe-init"].value == pytest.approx(0.03)
    assert set(measured.not_run) >= {"recipe-rate-2", "recipe-width", "recipe-adamw-1"}


def test_a_batch_that_is_chosen_on_a_seed_is_judged_on_the_others() -> None:
    record, noise = tried(), np.random.default_rng(0)
    data = record.data
    # Without noise half the batch loses 0.05 nats; these are the gains of one model's seeds.
    data["sweep_loss"].loc[{"model": "layers-0", "sweep": "batch"}] = 3.0
    data["sweep_loss"].loc[{"model": "layers-1", "sweep": "batch"}] = 3.0
    wanted = {"layers-0": [0.3, 0.0, 0.0], "layers-1": [0.0, 0.1, 0.1]}
    for model, gains in wanted.items():
        data["sweep_loss"].loc[{"model": model, "sweep": "batch"}][1] -= np.array(gains)
    # Seed 0 is judged by what the others like best, and they by seed 0 and each other.
    assert measure(record).estimates["recipe-batch"].value == pytest.approx(0.0)
    data["sweep_loss"] = data.sweep_loss + 0.01 * noise.normal(size=data.sweep_loss.shape)
    draws = np.array([draw.value for draw in nulls(record)["random"]["recipe-batch"]])
    assert draws.min() < 0 < draws.max() and abs(draws.mean()) < 0.1 * np.ptp(draws)


def test_figures_mark_the_best_and_the_rate_in_use() -> None:
    record = tried()
    assert list(draw_all(FIGURES, record)) == ["rates", "sweeps"]
    message = rates_message(record)
    assert "lose at most 0.050 nats" in message and "Muon 0.100 below Adam" in message
    assert "initialisation 0.5 (0 layers) gains 0.030" in sweeps_message(record)
    figure = rates(record)
    for ax, used, low in zip(figure.axes, (4e-2, 2e-2), (3.6, 2.8), strict=True):
        stars = [line for line in ax.lines if line.get_marker() == "*" and len(line.get_xdata())]
        assert [line.get_xdata()[0] for line in stars] == pytest.approx([2e-2, 1e-2])
        (ring,) = [line for line in ax.lines if line.get_label() == "rate in use"]
        assert ring.get_xdata()[0] == used
        assert min(line.get_ydata()[0] for line in stars) == pytest.approx(low)
    batch, init = sweeps(record).axes
    solid = [line for line in batch.lines if line.get_marker() == "o"]
    dashed = [
        line for line in batch.lines if line.get_linestyle() == "--" and len(line.get_xdata())
    ]
    np.testing.assert_allclose(solid[0].get_ydata(), [0, 0], atol=1e-12)
    np.testing.assert_allclose(dashed[0].get_ydata(), [0, 0.05], atol=1e-12)
    assert [text.get_text() for text in init.get_xticklabels()] == ["0.5", "1"]
    alone = Record(
        record.data.isel(value=[1]).assign(recipe_value=("sweep", [64.0, 1.0])), record.notes
    )
    assert list(draw_all(FIGURES, alone)) == ["rates"]
