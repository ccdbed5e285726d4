"""Distortion of random maps: worst pairs, quantiles, gains, and the figures."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, mean_curve
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW
from circuitax.figures.style import COLUMN, letter_panels, new_figure, sample_note
from circuitax.records.estimate import Estimate, ratio_estimate
from circuitax.records.sample import Sample, exactly, mean_of

FAMILY_STYLE = {
    "gaussian": (BLACK, "-", "Gaussian"),
    "rademacher": (BLUE, "-", r"signs $\pm1/\sqrt{m}$"),
    "achlioptas": (GREEN, "--", "sparse, density 1/3"),
    "li": (ORANGE, "-", r"sparse, density $1/\sqrt{n}$"),
    "hadamard": (PINK, "--", "Hadamard"),
    "lecun": (SKY, ":", "lecun, rescaled"),
    "orthogonal": (YELLOW, "-", "orthogonal, rescaled"),
}
CLOUD_TITLE = {
    "gaussian": "Gaussian cloud",
    "clustered": "clusters",
    "one_hot": "one-hot features",
    "embeddings": "token embeddings",
}
DISTORTION = r"distortion $\|f(x)-f(y)\|^2/\|x-y\|^2-1$"


def largest_over_gaussian(data: xr.Dataset, family: str) -> Estimate:
    """Worst distortion of one-hot features over that by Gaussian maps, at the m of the largest."""
    own, gaussian = (data.worst.sel(cloud="one_hot", family=name) for name in (family, "gaussian"))
    each = (ratio_estimate(own.sel(dim_out=m), gaussian.sel(dim_out=m)) for m in data.dim_out)
    return max(each, key=lambda found: found.value)


def shrinking(data: xr.Dataset) -> Sample:
    """Gain of kernels as lecun initialises them, times ``n / m``."""
    gain = data.gain.sel(initialiser="lecun")
    return mean_of(gain * data.attrs["dim_in"] / int(data.dim_out[-1]))


def gap_to_law(data: xr.Dataset) -> Sample:
    """Largest gap between pooled quantiles and ``χ²_m / m``, in units of ``sqrt(2 / m)``."""
    gap = np.abs(data["quantile"] - data.law_quantile) / np.sqrt(2 / data.dim_out)
    return exactly(gap.max(), data.sizes["map"])


def over_guarantee(data: xr.Dataset) -> Sample:
    """Worst distortion over what the union bound guarantees, largest of all."""
    share = data.worst_by_points / data.guaranteed  # NaN where nothing is guaranteed
    return exactly(share.max(), data.worst_by_points.isel(dim_out=0).size)


def distribution(data: xr.Dataset) -> Figure:
    """Quantiles over all pairs against m, with the exact law."""
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.8)
    ax = axes[0, 0]
    dims = data.dim_out.values
    shown = dims[:: max(1, len(dims) // 12)]
    names = {0.5: "median", 0.05: "5 %", 0.95: "95 %", 0.001: "0.1 %", 0.999: "99.9 %"}
    for level, name in names.items():
        law = data.law_quantile.sel(level=level)
        found = data["quantile"].sel(level=level, dim_out=shown)
        colour = BLACK if level == 0.5 else BLUE if level in (0.05, 0.95) else ORANGE
        ax.plot(dims, law, color=colour, linewidth=1)
        ax.plot(shown, found, "o", color=colour, markersize=3)
        side = {0.999: "bottom", 0.001: "top"}.get(level, "center")
        ax.text(dims[-1], law[-1], f" {name}", va=side, color=colour, fontsize=7)
    ax.plot([], [], "o", color=GREY, markersize=3, label="measured, all pairs")
    ax.plot([], [], color=GREY, linewidth=1, label=r"law $\chi^2_m/m$")
    ax.set(xlabel="dimensions $m$", ylabel=DISTORTION, ylim=(-1, 1.6))
    ax.legend(loc="upper right")
    sample_note(figure, f"quantiles over all pairs and {data.sizes['map']} maps")
    return figure


def families(data: xr.Dataset) -> Figure:
    """The worst pair over that of Gaussian maps, against m by family; panels are clouds."""
    figure, axes = new_figure(1, data.sizes["cloud"], height=2.5, sharex=True, sharey=True)
    dims = data.dim_out.values
    for ax, cloud in zip(axes[0], data.cloud.values, strict=True):
        for family, (colour, line, label) in FAMILY_STYLE.items():
            found = data.worst.sel(cloud=cloud, family=family)
            gaussian = data.worst.sel(cloud=cloud, family="gaussian").mean("map")
            rows = (found / gaussian).transpose("dim_out", "map")
            mean_curve(ax, dims, rows, colour, label=label, opacity=0.2, least=0.01, linestyle=line)
        ax.set(title=CLOUD_TITLE[str(cloud)], xlabel="dimensions $m$", yscale="log", xscale="log")
        ax.set_xticks([8, 32, 128], [8, 32, 128])
        ax.set_yticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", 1, 2, 4])
        ax.minorticks_off()
    axes[0, 0].set_ylabel("worst |distortion|,\nGaussian maps = 1")
    legend_above(figure, axes[0, 0], columns=4)
    letter_panels(axes[0])
    sample_note(figure, f"mean and 95 % interval of {data.sizes['map']} maps")
    return figure
