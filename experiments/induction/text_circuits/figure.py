"""Two layers on real text, before any induction head: local heads, useful one at a time."""

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, spread, zero_line
from circuitax.figures.palette import BLACK, KIND_COLOURS, ORDER_COLOURS
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.induction.shared.figure_term_panels import LAYERS, distance, terms


def composition(record: Record) -> Figure:
    """z of all pairs by kind, and OV eigenvalue scores by layer; open before, full after."""
    data = members_where(record.data)
    figure, axes = new_figure(1, 2, height=2.6, width_ratios=(1.5, 1))
    composing, copying = axes[0]
    z, z_before = data.composition_z, data.composition_z_at_init
    for i, (kind, colour) in enumerate(zip(data.kind.values, KIND_COLOURS, strict=True)):
        _dots(composing, i, z_before.sel(kind=kind), z.sel(kind=kind), colour)
    composing.set_xticks(range(3), [f"{kind}-composition" for kind in data.kind.values])
    composing.set_ylabel("z against the exact null")
    score, score_before = data.copying, data.copying_at_init
    for layer, (_, dark, _) in enumerate(LAYERS):
        _dots(copying, layer, score_before.isel(layer=layer), score.isel(layer=layer), dark)
    copying.set_xticks((0, 1), [name for name, *_ in LAYERS])
    copying.set(ylabel="OV eigenvalue score", ylim=(-1.05, 1.05))
    for ax in (composing, copying):
        zero_line(ax)
    for fill, label in (("none", "before training"), ("full", "after")):
        composing.plot([], [], "o", color=BLACK, fillstyle=fill, markersize=3, label=label)
    composing.legend(loc="upper right")
    letter_panels(axes[0])
    seeds = data.sizes["member"]
    sample_note(figure, f"a: every pair of heads, b: every head, of {seeds} seeds")
    return figure


def training(record: Record) -> Figure:
    """Means over seeds with intervals at every step kept."""
    data = members_where(record.data)
    figure, axes = new_figure(1, 3, height=2.5)
    losses, copying, composing = axes[0]
    for i, (colour, most) in enumerate(zip(ORDER_COLOURS, ("0", "≤ 1", "≤ 2"), strict=False)):
        _over_steps(losses, data.order_loss_by_step.isel(order=i), colour, f"order {most}")
    losses.set(ylabel="held-out loss, nats per token", title="paths of")
    for layer, (name, dark, _) in enumerate(LAYERS):
        mean = data.copying_by_step.isel(layer=layer).mean("head")
        _over_steps(copying, mean, dark, f"{name}, mean of heads")
    copying.set(ylabel="OV eigenvalue score", title="copying")
    for kind, colour in zip(data.kind.values, KIND_COLOURS, strict=True):
        mean = data.composition_z_by_step.sel(kind=kind).mean(["writer", "reader"])
        _over_steps(composing, mean, colour, f"{kind}, mean of pairs")
    composing.set(ylabel="z against the exact null", title="composition")
    steps = data.step.values
    for ax in axes[0]:
        ax.set_xscale("symlog", linthresh=max(int(steps[1]), 1), linscale=0.5)
        named = {0, *range(len(steps) - 1, 0, -2)}  # every second, or labels run together
        ax.set_xticks(steps, [str(s) if i in named else "" for i, s in enumerate(steps)])
        ax.minorticks_off()
        ax.set(xlabel="step of training")
        ax.legend(loc="upper right" if ax is losses else "lower left")
    for ax in (copying, composing):
        zero_line(ax)
        low, high = ax.get_ylim()
        ax.set_ylim(low - 0.4 * (high - low), high)  # room for the legend below the curves
    letter_panels(axes[0])
    sample_note(figure, f"mean and 95 % interval of {data.sizes['member']} seeds")
    return figure


def _over_steps(ax: Axes, values: xr.DataArray, colour: str, label: str) -> None:
    rows = values.transpose("step", "member")
    mean_curve(
        ax,
        rows.step,
        rows,
        colour,
        label=label,
        opacity=0.25,
        linestyle="-",
        marker="o",
        markersize=3,
    )


def _dots(ax: Axes, x: int, before: xr.DataArray, after: xr.DataArray, colour: str) -> None:
    """A dot for every number, open before training and full after."""
    for shift, fill, values in ((-0.2, "none", before), (0.2, "full", after)):
        samples = values.values.ravel()
        places = x + shift + spread(len(samples), 0.12)
        ax.plot(
            places,
            samples,
            "o",
            color=colour,
            fillstyle=fill,
            markersize=2.5,
            markeredgewidth=0.5,
            alpha=0.7,
        )


FIGURES = (
    FigureSpec(
        "terms",
        terms,
        message="Single heads save more loss than virtual heads, and those of layer 1 save most "
        "of it.",
        caption="Loss with paths of each order, and with the order-1 terms of each layer.",
        refuted="Refuted if virtual heads take off more than single ones, or if the terms of "
        "layer 0 save as much with those of layer 1 as without.",
    ),
    FigureSpec(
        "distance",
        distance,
        message="Most heads of both layers attend most to the previous token, but none to it "
        "alone.",
        caption="Attention by distance, every head of every seed.",
        refuted="Refuted if attention is uniform, or if a head of layer 0 gives most of it to the "
        "token before.",
    ),
    FigureSpec(
        "composition",
        composition,
        message="Training lowers most composition below chance, and moves heads of layer 1 "
        "towards copying.",
        caption="Composition of all pairs against its null, and OV eigenvalues, before and after "
        "training.",
        refuted="Refuted if K-composition lies above 0, or eigenvalue scores stay at 0.",
    ),
    FigureSpec(
        "training",
        training,
        message="Single heads lower the loss from the first steps on, and virtual heads little at "
        "any step.",
        caption="Loss with paths of each order, OV eigenvalue scores and composition at every "
        "step kept.",
        refuted="Refuted if virtual heads lower it before single ones do.",
    ),
)
