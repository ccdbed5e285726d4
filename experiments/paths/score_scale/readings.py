"""The scale of scores: slopes over the width of a head, losses, and the figure."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, mean_curve
from circuitax.figures.palette import BLACK, BLUE, ORANGE
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.record import members_where
from circuitax.records.sample import Sample, difference_of, mean_of

SCALED, RAW = "1/sqrt(d_k)", "1"
LINES = {"1/sqrt(d_k)": (BLUE, "o", r"scaled by $1/\sqrt{d_k}$"), "1": (ORANGE, "s", "not scaled")}
TIMES = {"initial": ("--", "at initialisation"), "trained": ("-", "after training")}
PANELS = {
    "variance": "variance of scores, layer 1",
    "entropy": "attention entropy, nats",
    "jacobian": "softmax Jacobian, norm",
    "loss": "loss, nats per token",
}


def growth(data: xr.Dataset, scale: str) -> Sample:
    """Slope of the log variance of scores over log d_k before training, mean of models."""
    return mean_of(_slopes(data.sel(scale=scale), "variance"))


def saturation(data: xr.Dataset) -> Sample:
    """The same slope of the softmax's Jacobian without the scale, less that with it."""
    return difference_of(*(_slopes(data.sel(scale=s), "jacobian") for s in (RAW, SCALED)))


def loss_without(data: xr.Dataset) -> Sample:
    """Loss of the widest heads after training without the scale, less that with it, nats."""
    widest = (data.sel(scale=s).isel(width=-1) for s in (RAW, SCALED))
    return difference_of(*(members_where(part).loss.sel(time="trained") for part in widest))


def _slopes(part: xr.Dataset, name: str) -> np.ndarray:
    logs = np.log(part[name].sel(time="initial").transpose("width", "member").values)
    return np.asarray(np.polyfit(np.log(part.width.values), logs, 1)[0])


def widths(data: xr.Dataset) -> Figure:
    """Three measures of saturation and the loss over the width of a head."""
    figure, axes = new_figure(1, 4, height=2.5)
    for ax, (name, quantity) in zip(axes[0], PANELS.items(), strict=True):
        for time, (line, when) in TIMES.items():
            for scale, (colour, mark, how) in LINES.items():
                part = data[name].sel(time=time, scale=scale).transpose("width", "member")
                label = f"{how}, {when}"
                mean_curve(ax, part.width, part, colour, label=label, linestyle=line, marker=mark)
        ax.set_xscale("log", base=2)
        ax.set_xticks(data.width.values, [str(w) for w in data.width.values])
        ax.minorticks_off()
        ax.set(xlabel=r"width of a head, $d_k$", ylabel=quantity)
    x = data.width.values
    # Unscaled scores have d_k times the variance of scaled ones.
    initial = data["variance"].sel(time="initial", scale="1/sqrt(d_k)")
    scaled = float(initial.mean(("width", "member")))
    label = r"$d_k$ × scaled"
    axes[0, 0].plot(x, scaled * x, color=BLACK, linewidth=0.8, linestyle=":", label=label)
    axes[0, 0].set_yscale("log")
    for ax in axes[0, 1:]:
        ax.set_ylim(bottom=0)
    legend_above(figure, axes[0, 0], columns=3)
    letter_panels(axes[0])
    sample_note(figure, f"mean and 95 % interval of {data.sizes['member']} seeds")
    return figure
