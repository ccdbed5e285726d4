"""Identities and random models: greatest errors, the mean composition score, and the figure."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line
from circuitax.figures.palette import COLOURS
from circuitax.figures.style import new_figure
from circuitax.records.sample import NotRun, Sample, exactly, mean_of

LABELS = {
    "paths": "paths sum to logits",
    "orders": "orders sum to logits",
    "direct": "order 0 is $W_E W_U$",
    "runs": "repeated runs are orders",
    "kronecker": "Kronecker matrix is $A\\,x\\,W$",
    "ablation": "ablation removes its paths",
}
LOOKS = list(zip(COLOURS, "os^vDP", strict=True))
FLOOR = 1e-17  # where an error of exactly 0 is drawn


def path_error(data: xr.Dataset, check: str) -> Sample:
    """Greatest relative error of an identity of paths, over depths and models."""
    _require_float64(data)
    return exactly(data.path_error.sel(check=check).max(), data.sizes["member"])


def path_error_float32(data: xr.Dataset) -> Sample:
    """The same for the sum of paths of two layers in single precision."""
    return exactly(data.path_error_float32.max(), data.sizes["member"])


def score_error(data: xr.Dataset) -> Sample:
    """Greatest error of scores as sums of terms by source, and of the patterns that they give."""
    _require_float64(data)
    return exactly(data.score_error.max(), data.sizes["member"])


def spectral_error(data: xr.Dataset, check: str) -> Sample:
    """Greatest relative error of a low-rank spectrum against the dense circuit."""
    _require_float64(data)
    return exactly(data.spectral_error.sel(check_spectral=check).max(), data.sizes["member"])


def least_change(data: xr.Dataset) -> Sample:
    """Least relative change of a Frobenius norm under a cyclic shift of its factors."""
    shifted = data.spectral_error.sel(check_spectral="cycled")
    return exactly(shifted.min(), data.sizes["member"])


def composition_centre(data: xr.Dataset) -> Sample:
    """Mean score over pairs times ``sqrt(d_model)``, of the kind that is farthest from 1."""
    ratio = data.random_composition.mean(["writer", "reader"]) * np.sqrt(float(data.random_d_model))
    kind = abs(ratio.mean("member") - 1).argmax("kind")
    return mean_of(ratio.isel(kind=kind).values)


def _require_float64(data: xr.Dataset) -> None:
    if not bool(data.float64):
        raise NotRun("needs dtype=float64, which is the experiment's own default")


def closing(data: xr.Dataset) -> Figure:
    """Greatest relative error of each identity of paths over seeds, by depth."""
    figure, axes = new_figure(height=2.9)
    by_depth = axes[0, 0]
    worst = data.path_error.max("member")
    shift = np.linspace(-0.25, 0.25, worst.sizes["check"])
    for (name, label), (colour, marker), dx in zip(LABELS.items(), LOOKS, shift, strict=True):
        error = np.maximum(worst.sel(check=name).values, FLOOR)
        dots: dict[str, Any] = {"color": colour, "markersize": 4, "label": label}
        by_depth.plot(np.arange(len(error)) + dx, error, marker, **dots)
    arms = [str(arm).replace(" layers", "").replace(", ", ",\n") for arm in data.arm.values]
    by_depth.set_xticks(range(len(arms)), arms)
    by_depth.set(xlabel="layers", ylabel="greatest relative error (float64)")
    by_depth.set(yscale="log", ylim=(FLOOR / 8, 1e-9))
    reference_line(by_depth, y=1e-12, label="tolerance")
    below: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 6}
    by_depth.annotate("exactly 0", (0, FLOOR), (0, -3), textcoords="offset points", **below)
    by_depth.legend(loc="upper left", ncols=2)
    return figure
