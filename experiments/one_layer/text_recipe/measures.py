"""The recipe, measured: each depth's best rate with each optimizer, and possible gains."""

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import geometric_estimate, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.record import Record
from circuitax.records.shared_exam import over_seeds_only, widened
from experiments.one_layer.text_recipe.best import Best, best_index, best_rate
from experiments.one_layer.text_recipe.claims import CLAIMS

# What the 256 windows that all seeds share have of the variance (docs/checks.md): the most that was
# measured, with one layer, of these comparisons of rates and optimizers.
OF_WINDOWS = 0.93
COMPARED = ("recipe-rate-", "recipe-muon-", "recipe-adamw-")


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
        above = above_best(data, name)
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
        all_gains = [e for n, e in found.items() if n.startswith("gain-") and f"-{sweep}-" in n]
        if all_gains:
            # The largest of several is chosen, which makes it look larger than it is.
            found[f"recipe-{sweep}"] = max(all_gains, key=lambda gain: gain.value)
    rates = {name: OF_WINDOWS for name in found if name.startswith(COMPARED)}
    others = [name for name in found if name.startswith("recipe-") and name not in rates]
    found = over_seeds_only(widened(found, rates), others)
    why = "this run did not try it, or seeds diverged"
    return Measured(found, {}, unmet_rest(CLAIMS, found, why))


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


def above_best(data: xr.Dataset, model: str) -> np.ndarray:
    """Loss at the rate in use less that at the best rate tried, by seed."""
    rates, losses = curve(data, model, str(data.optimizer.values[0]))
    (used,) = np.flatnonzero(np.isclose(rates, float(data.recipe_rate.sel(model=model))))
    return np.asarray(losses[used] - losses[best_index(losses)])


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
