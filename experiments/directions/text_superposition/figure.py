"""Do tokens and neurons of real models lie as random directions do?"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line, tilted_labels
from circuitax.figures.palette import GREY, PINK
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import PAGE, headline, letter_panels, new_figure
from circuitax.records.record import Record
from experiments.directions.text_superposition.figure_features import KINDS, NAMES, features

SHORT = {"ours": "ours", "smollm2": "SmolLM2"}
GATE = ("gate", PINK, "gates read")


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
    """Quantiles of D_i times n/d: each feature's dimensionality over the fair share."""
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


FIGURES = (
    FigureSpec(
        "tails",
        tails,
        message="Share of pairs of directions that overlap by more than a threshold, raw and "
        "centred, beside the law of random directions.",
        refuted="This is refuted as superposition by chance where the dashed curves leave the "
        "grey one.",
    ),
    FigureSpec(
        "layers",
        layers,
        message="Mean square overlap over that of random directions, by layer of SmolLM2, and the "
        "dimensionality of features, beside random ones.",
    ),
    FigureSpec(
        "features",
        features,
        message="Autoencoder features of each model interfere more than random directions, and "
        "have lower dimensionality.",
        caption="Their overlaps beside those of tokens and neurons, and the sums of their "
        "dimensionalities.",
        refuted="This is refuted if pink dots lie on the dotted lines.",
        where=lambda record: "features" in record.notes,
    ),
)
