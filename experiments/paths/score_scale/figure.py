"""Without 1/sqrt(d_k) wide heads start saturated; the scale keeps every width alike."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, mean_curve
from circuitax.figures.palette import BLACK, BLUE, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.record import Record

LINES = {"1/sqrt(d_k)": ("-", "o", r"scaled by $1/\sqrt{d_k}$"), "1": ("--", "s", "not scaled")}
TIMES = {"initial": (BLUE, "at initialisation"), "trained": (ORANGE, "after training")}
PANELS = {
    "variance": "variance of scores, layer 1",
    "entropy": "attention entropy, nats",
    "jacobian": "softmax Jacobian, norm",
}


def widths(record: Record) -> Figure:
    """Three measures of saturation over the width of a head."""
    data = record.data
    figure, axes = new_figure(1, 3, height=2.5)
    for ax, (name, quantity) in zip(axes[0], PANELS.items(), strict=True):
        for time, (colour, when) in TIMES.items():
            for scale, (line, mark, how) in LINES.items():
                part = data[name].sel(time=time, scale=scale).transpose("width", "member")
                label = f"{how}, {when}"
                mean_curve(ax, part.width, part, colour, label=label, linestyle=line, marker=mark)
        _width_axis(ax, data)
        ax.set_ylabel(quantity)
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


def losses(record: Record) -> Figure:
    """Training curves at every width, and the loss at the end."""
    data = record.data
    n = data.sizes["width"]
    figure, axes = new_figure(1, n + 1, height=2.0, sharey=True)
    for ax, width in zip(axes[0], data.width.values, strict=False):
        for scale, (line, _, how) in LINES.items():
            curve = data.training_loss.sel(width=width, scale=scale)
            values = curve.transpose("step", "member").values
            colour = BLUE if line == "-" else ORANGE
            ax.plot(data.step, values, color=colour, linewidth=0.3, alpha=0.3)
            ax.plot(data.step, np.nanmean(values, axis=1), color=colour, linestyle=line, label=how)
        ax.set(title=f"$d_k$ = {width}", xlabel="step")
    for scale, (line, mark, how) in LINES.items():
        part = data.loss.sel(time="trained", scale=scale).transpose("width", "member")
        colour = BLUE if line == "-" else ORANGE
        last = axes[0, -1]
        mean_curve(last, part.width, part, colour, label=how, linestyle=line, marker=mark)
    _width_axis(axes[0, -1], data)
    axes[0, -1].set_title("at the end")
    axes[0, 0].set_ylabel("loss, nats per token")
    legend_above(figure, axes[0, 0], columns=2)
    letter_panels(axes[0])
    sample_note(figure, f"means of {data.sizes['member']} seeds; thin: each; e: with 95 % interval")
    return figure


def _width_axis(ax: Axes, data: xr.Dataset) -> None:
    ax.set_xscale("log", base=2)
    ax.set_xticks(data.width.values, [str(w) for w in data.width.values])
    ax.minorticks_off()
    ax.set_xlabel(r"width of a head, $d_k$")


FIGURES = (
    FigureSpec(
        "widths",
        widths,
        message="With the scale, variance, entropy and Jacobian do not change with width before "
        "training; without it they diverge, before and after.",
        refuted="Refuted if the solid and dashed curves of a panel are parallel.",
    ),
    FigureSpec(
        "losses",
        losses,
        message="Without the scale wide heads learn less.",
        caption="The loss of each width along training, and at its end.",
        refuted="Refuted, as a reason to scale, if the dashed curves end where the solid ones do.",
    ),
)
