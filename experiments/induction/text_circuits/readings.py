"""Two layers on text read: what paths of each order are worth, who looks where, who composes."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, spread, zero_line
from circuitax.figures.style import (
    BLACK,
    KIND_COLOURS,
    ORDER_COLOURS,
    letter_panels,
    new_figure,
    sample_note,
)
from circuitax.records.sample import Sample, exactly, mean_of, members_where
from experiments.induction.shared.figure_term_panels import LAYERS, distance, terms
from experiments.induction.shared.measures_term_worth import (
    even_attention,
    previous_preferred,
    term_worth,
)

__all__ = ["WORLDS", "composition", "composition_z", "distance", "even_share", "heads_near"]
__all__ += ["layers", "orders", "positional", "terms", "training"]


def before_training(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """The same models with their weights at the start."""
    losses = data.order_loss_by_step.isel(step=0, drop=True)
    return data.assign(order_loss=losses, composition_z=data.composition_z_at_init)


WORLDS = {"before training": before_training}


def orders(data: xr.Dataset) -> dict[str, Sample]:
    """Nats a token that paths of order 0, 1 and 2 save, their differences and shares."""
    members = members_where(data)
    worth = term_worth(members)
    values = {
        "text-order-0": worth.direct,
        "text-order-0-above-bigram": members.order_loss.isel(order=0) - members.bigram_loss,
        "text-order-1-above-0": worth.heads - worth.direct,
        "text-order-1-above-2": worth.heads - worth.virtual,
        "text-order-2": worth.virtual,
        "text-order-1-share": worth.heads / worth.of_all_orders,
        "text-order-2-share": worth.virtual / worth.of_all_orders,
    }
    return {name: mean_of(each) for name, each in values.items()}


def layers(data: xr.Dataset) -> dict[str, Sample]:
    """What single heads of a layer save with and without those of the other one."""
    worth = term_worth(members_where(data))
    return {
        "text-layer-0-nearly-redundant": mean_of(worth.first_last / worth.first_alone),
        "text-layer-1-above-0": mean_of(worth.second_last - worth.first_last),
        "text-layer-1-share": mean_of(worth.second_last / worth.of_both_layers),
    }


def heads_near(data: xr.Dataset) -> dict[str, Sample]:
    """How much first-layer heads prefer the previous token, and the attention of the best to it."""
    members = members_where(data)
    best = members.attention.isel(layer=0, offset=1).max("head")
    return {
        "text-local": mean_of(previous_preferred(members)),
        "text-previous-head": mean_of(best),
    }


def even_share(data: xr.Dataset) -> Sample:
    """Attention to the previous token of a head that attends to all tokens alike."""
    return exactly(even_attention(int(data.n_ctx)))


def positional(data: xr.Dataset) -> Sample:
    """Share of the variance over sources of first-layer scores that positions make."""
    return mean_of(members_where(data).positional.mean("head"))


def composition_z(data: xr.Dataset) -> Sample:
    """Mean z of K- and V-composition over all pairs, against random rotations."""
    z = members_where(data).composition_z.sel(kind=["K", "V"])
    return mean_of(z.mean(["kind", "writer", "reader"]))


def composition(data: xr.Dataset) -> Figure:
    """z of all pairs by kind, and OV eigenvalue scores by layer; open before, full after."""
    data = members_where(data)
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


def training(data: xr.Dataset) -> Figure:
    """Means over seeds with intervals at every step kept."""
    data = members_where(data)
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
