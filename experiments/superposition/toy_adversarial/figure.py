"""Does superposition make a toy model easy to attack?"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line, seed_dots
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE, PINK
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import PAGE, letter_panels, new_figure
from circuitax.records.record import Record

ATTACKS = (
    ("analytic", "analytic, worst feature of each input", BLUE, "o"),
    ("feature", "analytic, one feature for all inputs", GREEN, "s"),
    ("gradient", "gradient ascent", ORANGE, "^"),
)
VULNERABILITY = "added loss / added loss\nwithout superposition"
FEATURES = "features per dimension\n" + r"$\|W\|_F^2/m$"


def vulnerability(record: Record) -> Figure:
    """Added loss over sparsity, features per dimension likewise, and one against the other."""
    data = record.data
    figure, axes = new_figure(1, 3, width=PAGE, height=2.95)
    over, shape, against = axes[0]
    sparsity = 1 / data.density.values
    for name, label, colour, mark in ATTACKS:
        rows = data[name].transpose("density", "seed").values
        mean_curve(over, sparsity, rows, colour, label=label, marker=mark, markersize=3)
    small: dict[str, Any] = {"color": PINK, "linestyle": "--"}
    small["label"] = f"exact optimum, {record.notes['exact']}"
    over.plot(sparsity, data.optimum_analytic, **small)
    rows = data.features_per_dimension.transpose("density", "seed").values
    mean_curve(shape, sparsity, rows, BLACK, marker="o", markersize=3, label="trained")
    shape.plot(sparsity, data.optimum_features_per_dimension, **small)
    x, y = data.features_per_dimension.values.ravel(), data.analytic.values.ravel()
    against.scatter(x, y, s=7, color=BLUE, alpha=0.5, linewidths=0)
    line = np.linspace(1, max(float(np.nanmax(x)), 1.1), 50)
    against.plot(line, line**2, color=GREY, linestyle=":", label="square")
    against.plot(
        data.optimum_features_per_dimension, data.optimum_analytic, "D", color=PINK, markersize=3
    )
    _sparse(over, VULNERABILITY, "vulnerability rises with sparsity")
    _sparse(shape, FEATURES, "and so does superposition")
    against.set(xlabel="features per dimension", title="one follows the other")
    against.legend(loc="upper left")
    for ax in (over, against):
        reference_line(ax, y=1)
    n, m = int(record.data.sizes["seed"]), record.notes["attack_strength"]
    handles, labels = over.get_legend_handles_labels()
    title = f"attack {m:g} of the mean input norm; mean of {n} seeds and t interval 95 %"
    figure.legend(handles, labels, loc="outside lower center", ncols=2, title=title)
    letter_panels(axes[0])
    return figure


def defence(record: Record) -> Figure:
    """Superposition left after adversarial training, and the cost of this training."""
    data = record.data
    figure, axes = new_figure(1, 4, width=PAGE, height=2.2)
    shown = (
        ("defended_features_per_dimension", FEATURES, "superposition goes"),
        ("defended_kept_per_dimension", "kept features\nper dimension", "fewer are kept"),
        ("defended_analytic", VULNERABILITY, "vulnerability falls"),
        ("defended_loss", "loss without attack", "at a price"),
    )
    for ax, (name, label, title) in zip(axes[0], shown, strict=True):
        rows = data[name].transpose("defence", "seed").values
        mean_curve(ax, data.defence.values, rows, BLUE, marker="o", markersize=3)
        for strength, row in zip(data.defence.values, rows, strict=True):
            seed_dots(ax, strength, row, GREY, half_width=0.012, size=5)
        ax.set(ylabel=label, title=title)
        if name != "defended_loss":
            reference_line(ax, y=1)
        ax.set_ylim(0, 1.08 * float(rows.max()))
    letter_panels(axes[0])
    figure.supxlabel("strength of the attack in training / mean input norm", fontsize=8)
    figure.suptitle(
        f"training against attacks, dots {data.sizes['seed']} seeds, band t interval 95 %",
        fontsize=8,
    )
    return figure


def _sparse(ax: Axes, label: str, title: str) -> None:
    ax.set(xscale="log", xlabel="1 / density $p$", ylabel=label, title=title)
    ticks = [1, 2, 5, 10, 20, 40]
    ax.set_xticks(ticks, [str(t) for t in ticks])
    ax.minorticks_off()


FIGURES = (
    FigureSpec(
        "vulnerability",
        vulnerability,
        message="The sparser the features, the more a small attack adds to the loss, in step with "
        "features per dimension.",
        caption="Dashed is a smaller model, at its exact optimum.",
        refuted="This is refuted if the solid curves of the first two panels do not rise "
        "together, or the points of a model in the third do not lie on one rising line.",
    ),
    FigureSpec(
        "defence",
        defence,
        message="The stronger the attack in training, the fewer features are kept, down to about "
        "one for each dimension.",
        refuted="This is refuted if features per dimension do not fall with the strength that was "
        "trained against.",
    ),
)
