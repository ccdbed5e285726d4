"""The recipe, measured: each depth's best rate with each optimizer, and possible gains."""

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.elsewhere import best_elsewhere
from circuitax.records.estimate import Estimate, geometric_estimate, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.null_samples import DRAWS, regrouped
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from circuitax.records.shared_exam import over_seeds_only, widened
from experiments.one_layer.text_recipe.best import Best, best_index, best_rate
from experiments.one_layer.text_recipe.claims import CLAIMS

# What the 256 windows that all seeds share have of the variance (docs/checks.md): the most that was
# measured, with one layer, of these comparisons of rates and optimizers.
OF_WINDOWS = 0.93
COMPARED = ("recipe-rate-", "recipe-muon-", "recipe-adamw-")
# Dials of which a claim says that they gain. The largest of several gains looks larger than it is,
# which would help these claims and goes against those that say that nothing is gained.
ASK_FOR_A_GAIN = ("batch", "width")


def measure(record: Record) -> Measured:
    """Losses and rates at their best, by depth and optimizer, and differences within seeds.

    ``loss-M-O`` and ``rate-M-O`` are those of model M and optimizer O at their best; what a claim
    needs that this run did not try is not run.
    """
    data = record.data
    names, optimizers = (list(map(str, data[axis].values)) for axis in ("model", "optimizer"))
    best = {(name, o): best_of(data, name, o) for name in names for o in optimizers}
    found = {f"loss-{name}-{o}": mean_estimate(one.loss) for (name, o), one in best.items()}
    found |= {
        f"rate-{name}-{o}": geometric_estimate(np.log(one.rate)) for (name, o), one in best.items()
    }
    recipe = optimizers[0]
    for name in names:
        layers = name.removeprefix("layers-")
        (above,) = above_best(data, name)
        if np.isfinite(above).all():
            found[f"recipe-rate-{layers}"] = mean_estimate(above)
        if best[name, recipe].inside:
            found[f"recipe-flat-{layers}"] = mean_estimate(best[name, recipe].curvature)
        for other in optimizers[1:]:
            gain = best[name, recipe].loss - best[name, other].loss
            found[f"recipe-{other}-{layers}"] = mean_estimate(gain)
        for sweep in map(str, data.sweep.values):
            for value, gains in sweep_gains(data, name, sweep).items():
                found[f"gain-{name}-{sweep}-{value:g}"] = mean_estimate(gains)
    for sweep in map(str, data.sweep.values):
        of_all = all_gains(data, names, sweep)
        gain = (_elsewhere if sweep in ASK_FOR_A_GAIN else _most)(of_all)
        if gain is not None:
            found[f"recipe-{sweep}"] = gain
    rates = {name: OF_WINDOWS for name in found if name.startswith(COMPARED)}
    others = [name for name in found if name.startswith("recipe-") and name not in rates]
    found = over_seeds_only(widened(found, rates), others)
    why = "this run did not try it, or seeds diverged"
    return Measured(found, {}, unmet_rest(CLAIMS, found, why))


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: other rates, optimizers and dials, and sides that are alike."""
    data, found = record.data, measure(record).estimates
    names, optimizers = (list(map(str, data[axis].values)) for axis in ("model", "optimizer"))
    recipe = optimizers[0]
    random: dict[str, Draws] = {}
    mismatched: dict[str, Draws] = {}
    false: dict[str, Draws] = {}
    momentum = [best_of(data, name, "sgd") for name in names if "sgd" in optimizers]
    inside = [mean_estimate(one.curvature) for one in momentum if one.inside]
    curved: Draws = inside or [None]
    for name in names:
        layers = name.removeprefix("layers-")
        if others := above_best(data, name, used=False):
            random[f"recipe-rate-{layers}"] = [mean_estimate(one) for one in others]
        own = best_of(data, name, recipe)
        for other in optimizers[1:]:
            losses = best_of(data, name, other).loss
            if min(len(losses), len(own.loss)) > 1 and np.isfinite([*losses, *own.loss]).all():
                random[f"recipe-{other}-{layers}"] = regrouped(losses, own.loss)
        false[f"recipe-flat-{layers}"] = curved
        mismatched[f"recipe-adamw-{layers}"] = [
            found.get(f"recipe-{other}-{layers}") for other in optimizers[1:] if other != "adamw"
        ] or [None]
    sweeps = [str(sweep) for sweep in data.sweep.values]
    for sweep in sweeps:
        mismatched[f"recipe-{sweep}"] = [
            _most(all_gains(data, names, other)) for other in sweeps if other != sweep
        ] or [None]
        random[f"recipe-{sweep}"] = _alike(data, names, sweep)
    return {"random": random, "mismatched": mismatched, "false world": false}


def all_gains(data: xr.Dataset, names: list[str], sweep: str) -> xr.DataArray:
    """Gain of each value of a dial at each depth over the recipe's, ``[setting, seed]``."""
    rows = [row for name in names for row in sweep_gains(data, name, sweep).values()]
    return xr.DataArray(np.reshape(rows, (len(rows), data.sizes["seed"])), dims=("setting", "seed"))


def _most(gain: xr.DataArray) -> Estimate | None:
    """The largest of all mean gains; None where there is none."""
    return max(map(mean_estimate, gain.values), key=lambda mean: mean.value, default=None)


def _elsewhere(gain: xr.DataArray) -> Estimate | None:
    """The gain of each seed by the value and depth that gain most in the others, or None."""
    if not gain.sizes["setting"]:
        return None
    return mean_estimate(best_elsewhere(gain, "setting", folds=max(gain.sizes["seed"], 2)))


def _alike(data: xr.Dataset, names: list[str], sweep: str) -> Draws:
    """Gains chosen in the same way where no value of a dial gains and all that differs is noise."""
    rng, drawn = np.random.default_rng(0), []
    for name in names:
        values, losses = sweep_losses(data, name, sweep)
        at_best = np.array([rows[best_index(rows)] for rows in losses])
        recipe = np.isclose(values, float(data.recipe_value.sel(sweep=sweep)))
        left = at_best - at_best.mean(axis=1, keepdims=True)
        for row in left[~recipe]:
            pool = np.broadcast_to(np.append(row, left[recipe]), (DRAWS, 2 * row.size))
            mixed = rng.permuted(pool, axis=1)
            drawn.append(mixed[:, : row.size] - mixed[:, row.size :])
    if not drawn or drawn[0].shape[1] < 2:
        return [None]
    each = xr.DataArray(np.array(drawn), dims=("setting", "draw", "seed"))
    return [_elsewhere(each.isel(draw=i)) for i in range(DRAWS)]


def best_of(data: xr.Dataset, model: str, optimizer: str) -> Best:
    """The minimum between the tried rates; over seeds that never diverged."""
    rates, losses = curve(data, model, optimizer)
    return best_rate(rates, losses)


def curve(data: xr.Dataset, model: str, optimizer: str) -> tuple[np.ndarray, np.ndarray]:
    """Rates that were tried, and losses ``[rate, seed]``; NaN where a seed diverged."""
    rates = data.learning_rate.sel(optimizer=optimizer).values
    losses = data.loss.sel(model=model, optimizer=optimizer).transpose("rate", "seed").values
    tried = np.isfinite(rates)
    return rates[tried], losses[tried]


def above_best(data: xr.Dataset, model: str, used: bool = True) -> list[np.ndarray]:
    """Loss at the rate in use less that at the best rate tried, by seed.

    Args:
        data: Data of a record.
        model: Name of the model.
        used: False for those of each other rate at which no seed diverged.
    """
    rates, losses = curve(data, model, str(data.optimizer.values[0]))
    own = np.isclose(rates, float(data.recipe_rate.sel(model=model)))
    above = losses - losses[best_index(losses)]
    kept = own if used else ~own & np.isfinite(above).all(axis=1)
    return list(above[kept])


def sweep_losses(data: xr.Dataset, model: str, sweep: str) -> tuple[np.ndarray, np.ndarray]:
    """The values tried, and losses ``[value, near, seed]``.

    Values at all of whose rates a seed diverged are left out; the recipe's is never one of them.
    """
    values = data.sweep_value.sel(sweep=sweep).values
    losses = data.sweep_loss.sel(model=model, sweep=sweep).transpose("value", "near", "seed").values
    finite = np.isfinite(losses).all(axis=2).any(axis=1)
    return values[finite], losses[finite]


def sweep_gains(data: xr.Dataset, model: str, sweep: str) -> dict[float, np.ndarray]:
    """Gain of each value over the recipe's by seed, both at their own best rate."""
    values, losses = sweep_losses(data, model, sweep)
    at_best = {
        float(value): rows[best_index(rows)] for value, rows in zip(values, losses, strict=True)
    }
    recipe = at_best.pop(float(data.recipe_value.sel(sweep=sweep)))
    return {value: recipe - row for value, row in at_best.items()}
