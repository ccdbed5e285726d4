"""The smallest sufficient dimension: slopes, constants, sharpness, and the figures."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import interval_bars
from circuitax.figures.palette import BLUE, EVERY, GREY
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.estimate import Estimate
from circuitax.records.sample import NotRun


def numbers(data: xr.Dataset) -> dict[str, Estimate]:
    """Every number with the percentile interval of a bootstrap over the maps of each N."""
    value = _numbers(data.threshold.sel(end="dim").values, data)
    if not np.isfinite(list(value.values())).all():
        raise NotRun(f"max_dim={int(data.dim_out[-1])} is too small")
    draws = [_numbers(found, data) for found in data["resampled"].values]
    n = data.attrs["n_maps"] * data.sizes["n_points"]
    found = {}
    for name, number in value.items():
        low, high = np.nanpercentile([draw[name] for draw in draws], [2.5, 97.5])
        found[name] = Estimate(number, float(low), float(high), n, "bootstrap over maps 95%")
    return found


def _numbers(thresholds: np.ndarray, data: xr.Dataset) -> dict[str, float]:
    """Of one set of thresholds ``[δ, ε, N]``, δ = 1/2, 0.1 and 0.9."""
    median, safe, first = thresholds
    log_n, eps = np.log(data.n_points.values), data.epsilon.values
    predicted = data.predicted.values
    width = (safe - first) / median

    def slope(m: np.ndarray) -> float:
        return float(np.polyfit(log_n, m[0], 1)[0])

    return {
        "jl-log-n": slope(median) / slope(predicted),
        "jl-epsilon": float(np.polyfit(np.log(eps), np.log(median[:, -1]), 1)[0]),
        "jl-constant": float((median / predicted).mean()),
        "jl-dasgupta-gupta": float((data.dasgupta_gupta.values / safe).mean()),
        "jl-proof-slack": float((data.proof.values / median).min()),
        "jl-sharpness": float((width[:, -1] / np.maximum(width[:, 0], 1e-9)).mean()),
    }


def threshold(data: xr.Dataset) -> Figure:
    """Smallest m against N at every ε, and against ε at the largest N with the bounds."""
    figure, axes = new_figure(1, 2, height=2.6)
    left, right = axes[0]
    n, eps = data.n_points.values, data.epsilon.values
    median = data.threshold.isel(delta=0)
    for colour, e in zip(EVERY, eps, strict=False):
        cell, law = median.sel(epsilon=e), data.predicted.sel(epsilon=e)
        _bars(left, n, cell, colour)
        left.plot(n, law, color=colour, linewidth=1)
        name = rf"$\varepsilon={e:g}$"
        left.text(1.08 * n[-1], law[-1], name, va="center", color=colour, fontsize=7)
    left.plot([], [], "o", color=GREY, markersize=3.5, label="measured, half of the maps succeed")
    left.plot([], [], color=GREY, linewidth=1, label="exact law, pairs independent")
    left.set(xscale="log", xlabel="points $N$", ylabel="smallest sufficient $m$")
    left.set_ylim(0, 1.25 * float(data.predicted.max()))
    left.set_xlim(n[0] / 1.3, n[-1] * 2.4)
    left.legend(loc="upper left")
    cell = median.isel(n_points=-1)
    scale = eps**2 / np.log(n[-1])
    _bars(right, eps, cell * scale, BLUE, label="measured, 50 % succeed")
    lines = (
        ("predicted", "-", "exact law, pairs independent"),
        ("union", "-.", "exact law, union bound, 90 %"),
        ("dasgupta_gupta", "--", "Dasgupta–Gupta, scikit-learn"),
        ("proof", ":", "proof of Theorem 27"),
    )
    for (name, line, label), colour in zip(lines, EVERY, strict=False):
        right.plot(eps, data[name].isel(n_points=-1) * scale, line, color=colour, label=label)
    right.set(xlabel=r"$\varepsilon$", ylabel=r"constant $C = m\,\varepsilon^2/\ln N$")
    right.set(title=f"$N = {n[-1]}$", yscale="log", ylim=(5, 400))
    right.set_yticks([5, 10, 20, 50], [5, 10, 20, 50])
    right.minorticks_off()
    right.legend(loc="upper left")
    letter_panels(axes[0])
    sample_note(figure, f"medians of {data.attrs['n_maps']} maps with 95 % intervals")
    return figure


def _bars(ax: Axes, x: np.ndarray, cell: xr.DataArray, colour: str, label: str = "") -> None:
    """Thresholds with their ends; one that the table does not reach is drawn as nothing."""
    ends = cell.transpose(..., "end").values
    found = [Estimate(dim, low, high, 0, "interval") for dim, low, high in ends]
    dots: dict[str, Any] = {"fmt": "o", "markersize": 3.5, "linewidth": 0.8}
    interval_bars(ax, x, found, colour=colour, label=label, **dots)
