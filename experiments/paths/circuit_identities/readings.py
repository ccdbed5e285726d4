"""Identities and random models: greatest errors, moments of scores, and the figures."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line, tilted_labels
from circuitax.figures.palette import BLACK, BLUE, COLOURS, KIND_COLOURS
from circuitax.figures.style import COLUMN, letter_panels, new_figure
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
    """Greatest relative error over seeds: of paths by depth, of scores and spectra beside them."""
    figure, axes = new_figure(1, 2, height=2.9, width_ratios=(1.7, 1), sharey=True)
    by_depth, others = axes[0]
    worst = data.path_error.max("member")
    shift = np.linspace(-0.25, 0.25, worst.sizes["check"])
    for (name, label), (colour, marker), dx in zip(LABELS.items(), LOOKS, shift, strict=True):
        error = np.maximum(worst.sel(check=name).values, FLOOR)
        by_depth.plot(
            np.arange(len(error)) + dx, error, marker, color=colour, markersize=4, label=label
        )
    arms = [str(arm).replace(" layers", "").replace(", ", ",\n") for arm in data.arm.values]
    by_depth.set(
        yscale="log",
        ylim=(FLOOR / 8, 1e-9),
        xticks=range(len(arms)),
        xticklabels=arms,
        xlabel="layers",
        ylabel="greatest relative error (float64)",
    )
    reference_line(by_depth, y=1e-12, label="tolerance")
    by_depth.annotate(
        "exactly 0",
        (0, FLOOR),
        (0, -3),
        textcoords="offset points",
        ha="center",
        va="top",
        fontsize=6,
    )
    by_depth.legend(loc="upper left", ncols=2)
    spectral = data.spectral_error.max("member")
    without, positions = (int(n) for n in data.score_count.max("member").values)
    rows = {
        f"{without} score terms": float(data.score_error.sel(positions="none").max()),
        f"{positions}, with positions": float(data.score_error.sel(positions="shortformer").max()),
        "eigenvalues": float(spectral.sel(check_spectral="eigenvalues")),
        "trace": float(spectral.sel(check_spectral="trace")),
        "norm": float(spectral.sel(check_spectral="norm")),
    }
    lines = [1e-12, 1e-12, 1e-10, 1e-10, 1e-10]
    for x, (value, line) in enumerate(zip(rows.values(), lines, strict=True)):
        others.plot(x, max(value, FLOOR), "o", color=BLUE, markersize=4)
        others.plot([x - 0.4, x + 0.4], [line, line], color=BLACK, linewidth=0.8, linestyle=":")
    tilted_labels(others, list(rows))
    others.set_xlim(-0.6, len(rows) - 0.4)
    letter_panels(axes[0])
    return figure


def nulls(data: xr.Dataset) -> Figure:
    """Histograms over all pairs of heads of all seeds."""
    figure, axes = new_figure(1, 1, height=2.4, width=COLUMN)
    composing = axes[0, 0]
    root = np.sqrt(float(data.random_d_model))
    scores = data.random_composition * root
    bins = np.linspace(float(scores.min()), float(scores.max()), 41)
    for kind, colour in zip(data.kind.values, KIND_COLOURS, strict=True):
        composing.hist(
            scores.sel(kind=kind).values.ravel(),
            bins,
            histtype="step",
            color=colour,
            label=f"{kind}, {scores.sel(kind=kind).size} pairs",
        )
    reference_line(composing, x=1)
    composing.set(xlabel=r"composition score $\times\,\sqrt{d_{model}}$", ylabel="pairs")
    composing.legend()
    return figure
