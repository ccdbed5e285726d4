"""Do tokens and neurons of real models lie as random directions do?

tails       How often two directions overlap by more than a threshold, as they are and with their
            mean taken off, beside the law of random directions. This is refuted as superposition by
            chance where the dashed curves leave the grey one.
layers      Mean square overlap over that of random directions, by layer of SmolLM2, and how many
            dimensions features have, beside random ones.
features    Features that autoencoders find in our text model interfere more than random directions,
            and have fewer dimensions. Their overlaps beside those of tokens and neurons, and the
            sums of their dimensionalities. This is refuted if pink dots lie on the dotted lines.
"""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import (
    interval_bars,
    mean_curve,
    reference_line,
    seed_dots,
    tilted_labels,
)
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE, PINK
from circuitax.figures.style import PAGE, headline, letter_panels, new_figure, styled
from circuitax.records.estimate import mean_of_finite
from circuitax.records.record import Record

NAMES = {"ours": "our text model", "smollm2": "SmolLM2-135M"}
SHORT = {"ours": "ours", "smollm2": "SmolLM2"}
KINDS = {
    "tokens": (BLUE, "tokens"),
    "read": (ORANGE, "neurons read"),
    "write": (GREEN, "neurons write"),
}
GATE = ("gate", PINK, "gates read")


@styled
def draw(record: Record) -> dict[str, Figure]:
    """Two figures, and a third where features of our model were looked for."""
    drawn = {"tails": tails(record), "layers": layers(record)}
    if "features" in record.notes:
        drawn["features"] = features(record)
    return drawn


def tails(record: Record) -> Figure:
    """One panel a model: shares of pairs, on a logarithmic axis, that fall as thresholds rise."""
    models = record.notes["models"]
    figure, axes = new_figure(1, 2, width=PAGE, height=3.0, sharey=True)
    for ax, name in zip(axes[0], models, strict=False):
        _tail_panel(ax, record.data, name)
    for ax in axes[0][len(models) :]:
        ax.set_axis_off()
        ax.text(
            0.5,
            0.5,
            f"no weights:\n{record.notes['missing']}",
            ha="center",
            fontsize=6,
            wrap=True,
        )
    axes[0, 0].set_ylabel("share of pairs above")
    _legend_below(figure, axes[0, 0])
    letter_panels(axes[0][: len(models)])
    headline(figure, _overlaps_message(record.data))
    return figure


def _over_random(data: xr.Dataset) -> xr.DataArray:
    """Mean square overlap of each set as it is, over that of random ones."""
    return data.mean_square.sel(centred=False) / data.null_mean_square.mean("draw")


def _overlaps_message(data: xr.Dataset) -> str:
    ratio = _over_random(data)
    most = data.isel(set=int(ratio.argmax("set")))
    label = {**KINDS, GATE[0]: GATE[1:]}[most.kind.item()][1]
    return (
        f"{int((ratio > 1).sum())} of {ratio.size} sets of directions overlap more than random "
        f"ones, most of all {label} of {NAMES[most.model.item()]}"
    )


def _tail_panel(ax: Axes, data: xr.Dataset, name: str) -> None:
    for kind, (colour, label) in KINDS.items():
        for centred, style in ((False, "solid"), (True, "dashed")):
            above = data.above.sel(group=f"{name} {kind}", centred=centred).values
            how = "centred" if centred else "as they are"
            shown = np.where(above > 0, above, np.nan)
            ax.plot(
                data.multiple,
                shown,
                color=colour,
                linestyle=style,
                label=f"{label}, {how}",
            )
    law = data.law.sel(group=f"{name} tokens").values
    shown = np.where(law > 1e-9, law, np.nan)
    ax.plot(data.multiple, shown, color=GREY, linewidth=2.5, alpha=0.6, label="random (law)")
    ax.set_yscale("log")
    ax.set_ylim(1e-7, 1.5)
    d_model = int(data.dim.isel(set=int(np.argmax((data.model == name).values))))
    ax.set(xlabel="|cosine| · √d", title=f"{NAMES[name]} (d = {d_model})")


def _legend_below(figure: Figure, ax: Axes) -> None:
    """One legend for all panels, below them: the line above is the message."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)


def layers(record: Record) -> Figure:
    """Overlaps by layer of the deepest model, and dimensionality of every kind."""
    data, models = record.data, record.notes["models"]
    figure, axes = new_figure(1, 2, width=PAGE, height=3.2)
    left, right = axes[0]
    name = models[-1]
    kinds = {**KINDS, GATE[0]: GATE[1:]}
    for kind, (colour, label) in kinds.items():
        chosen = (data.model == name).values & (data.kind == kind).values
        sets = data.isel(set=np.flatnonzero(chosen))
        for centred, style in ((False, "solid"), (True, "dashed")):
            ratio = sets.mean_square.sel(centred=centred) / sets.null_mean_square.mean("draw")
            how = "centred" if centred else "as they are"
            if kind == "tokens":
                left.axhline(
                    float(ratio.values[0]),
                    color=colour,
                    linestyle=style,
                    linewidth=0.8,
                    label=f"{label}, {how}",
                )
            else:
                left.plot(
                    sets.layer,
                    ratio,
                    color=colour,
                    linestyle=style,
                    marker="o",
                    markersize=2,
                    label=f"{label}, {how}",
                )
    left.set_yscale("log")
    reference_line(left, y=1)
    left.set(xlabel="layer", ylabel="mean square overlap / random", title=NAMES[name])
    _dims(right, data, models)
    _legend_below(figure, left)
    letter_panels(axes[0])
    ratio, of_tokens = _over_random(data), (data.kind == "tokens").values
    own = (data.model == name).values
    neurons, tokens = (float(ratio[own & kind].median()) for kind in (~of_tokens, of_tokens))
    headline(
        figure,
        f"{NAMES[name]}, mean square overlap over random: neurons {neurons:.1f} (median), "
        f"tokens {tokens:.0f}",
    )
    return figure


def _dims(ax: Axes, data: xr.Dataset, models: list[str]) -> None:
    """Quantiles of D_i times n/d: what share of a fair share each feature has."""
    labels: list[str] = []
    for name in models:
        for kind, (colour, label) in KINDS.items():
            chosen = (data.model == name).values & (data.kind == kind).values
            sets = data.isel(set=np.flatnonzero(chosen))
            fair = (sets.dim / sets.n_rows).values[:, None]
            for centred, shift in ((False, -0.15), (True, 0.15)):
                shares = (sets.dimensionality.sel(centred=centred).values / fair).mean(axis=0)
                at = len(labels) + shift
                ax.plot([at, at], shares[[0, -1]], color=colour, linewidth=1)
                ax.plot([at, at], shares[[1, -2]], color=colour, linewidth=3)
                ax.plot(
                    at,
                    shares[2],
                    "o",
                    color=colour,
                    markersize=4,
                    markerfacecolor="white" if centred else colour,
                )
            null = (sets.null_dimensionality.values / fair).mean(axis=0)[2]
            ax.plot(
                [len(labels) - 0.35, len(labels) + 0.35],
                [null, null],
                color=GREY,
                linewidth=1,
            )
            labels.append(f"{label.removeprefix('neurons ')}, {SHORT[name]}")
    tilted_labels(ax, labels)
    ax.set_yscale("log")
    ax.set(ylabel="$D_i$ · n / d", title="dimensions a feature has")
    shown = "dot: median\nbars: 50 and 90 % of features\nwhite: centred\ngrey: random, median"
    ax.text(0.03, 0.04, shown, transform=ax.transAxes, fontsize=6)


def features(record: Record) -> Figure:
    """Overlaps of features, and two numbers of them beside tokens and neurons."""
    data, notes = record.data, record.notes["features"]
    figure, axes = new_figure(1, 3, width=PAGE, height=3.2)
    left, middle, right = axes[0]
    _feature_tail(left, data)
    kinds = {**KINDS, "features": (PINK, "features")}
    for ax, measured in ((middle, "mean_square"), (right, "dimensionality_sum")):
        for place, (kind, (colour, _)) in enumerate(kinds.items()):
            for centred, shift in ((False, -0.18), (True, 0.18)):
                values = _kind_over_random(data, kind, measured, centred)
                mark: dict[str, Any] = {"markerfacecolor": "white"} if centred else {}
                seed_dots(ax, place + shift, values, colour, half_width=0.1, size=5, opacity=0.4)
                if kind == "features" and np.isfinite(values).any():
                    found = [mean_of_finite(values)]
                    interval_bars(
                        ax, [place + shift], found, colour=colour, fmt="o", markersize=4, **mark
                    )
                else:
                    ax.plot(place + shift, values.mean(), "o", color=colour, markersize=4, **mark)
        tilted_labels(ax, [label for _, label in kinds.values()])
        reference_line(ax, y=1, label="random directions")
        ax.set_xlim(-0.5, len(kinds) - 0.5)
    dim = notes["dim"]
    bound = data.feature_welch**2 / data.feature_null_mean_square.sel(centred=False)
    reference_line(
        middle,
        y=float(bound.mean()),
        label="least possible for features (Welch)",
        style="dashed",
        colour=PINK,
    )
    middle.set(ylabel="mean square overlap / random", title="interference")
    right.set(ylabel="Σ $D_i$ / random", title="dimensions in use")
    most = dim / float(data.feature_null_dimensionality_sum.sel(centred=False).mean())
    label = "all dimensions, for features"
    reference_line(right, y=most, label=label, style="dashed", colour=PINK)
    for ax in (middle, right):
        ax.set_ylim(0, 1.3 * ax.get_ylim()[1])  # room for the legend
        ax.legend(fontsize=6, loc="upper left")
    dead = float(data.feature_dead.mean())
    said = (
        f"{notes['width']} latents in {dim} dimensions, {notes['active']} on at a time, "
        f"{100 * dead:.0f} % dead; {notes['seeds']} autoencoders on one model.\n"
        "Small dots: autoencoders, or layers; white: centred; bars: t interval 95 %"
    )
    figure.supxlabel(said, fontsize=6)
    letter_panels(axes[0])
    overlap, used = (
        float(np.nanmean(_kind_over_random(data, "features", measured, True)))
        for measured in ("mean_square", "dimensionality_sum")
    )
    headline(
        figure,
        f"Features of our text model have {overlap:.2f} times the interference of random "
        f"directions, and {used:.2f} of their dimensions",
    )
    return figure


def _feature_tail(ax: Axes, data: xr.Dataset) -> None:
    """Tails of features and tokens of our model, and the law."""
    for centred, style in ((False, "solid"), (True, "dashed")):
        how = "centred" if centred else "as they are"
        tokens = data.above.sel(group="ours tokens", centred=centred).values
        shown = np.where(tokens > 0, tokens, np.nan)
        ax.plot(data.multiple, shown, color=BLUE, linestyle=style, label=f"tokens, {how}")
        rows = data.feature_above.sel(centred=centred).transpose("multiple", "seed").values
        mean_curve(
            ax,
            data.multiple,
            rows[:, np.isfinite(rows).all(axis=0)],
            PINK,
            linestyle=style,
            label=f"features, {how}",
            least=1e-6,
        )
    law = data.law.sel(group="ours tokens").values
    shown = np.where(law > 1e-9, law, np.nan)
    ax.plot(data.multiple, shown, color=GREY, linewidth=2.5, alpha=0.6, label="random (law)")
    ax.set(yscale="log", ylim=(1e-6, 1.5), xlabel="|cosine| · √d", ylabel="share of pairs above")
    ax.set_title("pairs")
    ax.set_ylim(top=1e4)  # room for the legend
    ax.legend(fontsize=6, loc="upper right")


def _kind_over_random(data: xr.Dataset, kind: str, measured: str, centred: bool) -> np.ndarray:
    """A number over that of random directions: one for each autoencoder, or for each layer."""
    if kind == "features":
        null = data[f"feature_null_{measured}"].sel(centred=False)
        values: Any = data[f"feature_{measured}"].sel(centred=centred) / null
    else:
        chosen = (data.model == "ours").values & (data.kind == kind).values
        sets = data.isel(set=np.flatnonzero(chosen))
        values = sets[measured].sel(centred=centred) / sets[f"null_{measured}"].mean("draw")
    return np.asarray(values)
