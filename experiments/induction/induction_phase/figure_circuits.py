"""Training as a path in the plane of per-token losses, and the traces of the induction circuit."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, mean_curve, zero_line
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE, SKY
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.induction.shared.phase_change import has_changed, last_score

# Colour and line of each arm.
ARMS = {
    "1 layer": (GREY, "-"),
    "1 layer, smeared": (BLUE, "--"),
    "2 layers": (ORANGE, "-"),
    "2 layers, smeared": (GREEN, "--"),
}


def circuits(record: Record) -> Figure:
    """Trajectories of training in the plane of two components, and traces of the circuit."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.9, width_ratios=(1.2, 1))
    plane, traces = axes[0]
    usual = last_score(members_where(data.sel(arm="2 layers")))
    for arm, (colour, line) in ARMS.items():
        members = members_where(data.sel(arm=arm))
        _paths(plane, members, has_changed(members, usual).values, colour)
        plane.plot([], [], color=colour, linestyle=line, label=arm)
    plane.plot([], [], color=BLACK, linewidth=2, label="steepest sixth of the in-context score")
    first, second = 100 * data.explained.values
    plane.set(
        xlabel=f"first component ({first:.0f} % of the variance), nats",
        ylabel=f"second component ({second:.0f} %), nats",
        title="training in the plane of single tokens' losses",
    )
    _traces(traces, members_where(data.sel(arm="2 layers")))
    n = data.sizes["member"]
    title = f"{n} seeds an arm; right: mean and 95 % interval, thin: each seed"
    legend_above(figure, plane, columns=3, title=title, title_fontsize=7)
    letter_panels(axes[0])
    return figure


def _paths(ax: Axes, members: xr.Dataset, changed: np.ndarray, colour: str) -> None:
    """The path of every seed, thick within its phase change."""
    path = members.trajectory.transpose("member", "step", "component").values
    steps = members.step.values
    for member in range(len(path)):
        ax.plot(*path[member].T, color=colour, linewidth=0.3, alpha=0.4)
        if changed[member]:
            start, end = (float(members[f"jump_{edge}"][member]) for edge in ("start", "end"))
            inside = (steps >= start) & (steps <= end)
            ax.plot(*path[member][inside].T, color=colour, linewidth=1.2, alpha=0.6)


def _traces(ax: Axes, two: xr.Dataset) -> None:
    """Traces of both circuits of the induction head, in steps from the middle of the change."""
    shift = two.step - (two.jump_start + two.jump_end) / 2
    end = two.isel(step=-1, drop=True)
    writer = end.previous.isel(layer=0).argmax("head")
    reader = end.prefix.isel(layer=1).argmax("head")
    curves = (
        ("QK through K, of the pair", two.matching.isel(writer=writer, reader=reader), ORANGE),
        ("OV of the induction head", two.copying.isel(layer=1, head=reader), BLUE),
    )
    around = np.linspace(float(shift.min("step").max()), float(shift.max("step").min()), 60)
    for label, curve, colour in curves:
        rows = [
            np.interp(around, shift.isel(member=i), curve.isel(member=i))
            for i in range(two.sizes["member"])
        ]
        mean_curve(ax, around, np.stack(rows, axis=1), colour, label=label, each=True)
    half = float(two.jump_end[0] - two.jump_start[0]) / 2
    ax.axvspan(-half, half, color=SKY, alpha=0.25, linewidth=0)
    zero_line(ax)
    ax.set(
        xlabel="training step, from the middle of the change",
        ylabel="trace over absolute eigenvalues",
        title="the circuit's weights",
        ylim=(-0.2, 1.05),
    )
    ax.legend(loc="center right")
