"""Decompositions of random models close up to rounding, and random heads already compose."""

import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line, tilted_labels
from circuitax.figures.palette import BLACK, BLUE, COLOURS, GREY, KIND_COLOURS
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.record import Record

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


def closing(record: Record) -> Figure:
    """Greatest relative error over seeds: of paths by depth, of scores and spectra beside them."""
    data = record.data
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


def nulls(record: Record) -> Figure:
    """Histograms over all pairs and heads of all seeds."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.4)
    composing, copying = axes[0]
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
    values = data.random_copying.values.ravel()
    copying.hist(values, 24, color=BLUE, alpha=0.8)
    for x, label in ((-0.1, "tolerance"), (0.1, None)):
        reference_line(copying, x=x, style="dashed", colour=GREY, label=label)
    copying.legend(loc="upper right", bbox_to_anchor=(0.97, 1))
    reference_line(copying, x=0)
    copying.set(xlabel="OV eigenvalue score", ylabel=f"heads, of {values.size}")
    letter_panels(axes[0])
    return figure


FIGURES = (
    FigureSpec(
        "closing",
        closing,
        message="Every identity holds up to rounding, at every depth.",
        caption="The greatest error of each.",
        refuted="Refuted by a mark above its line.",
    ),
    FigureSpec(
        "nulls",
        nulls,
        message="Before training heads compose as random matrices do, and their OV scores lie "
        "around 0.",
        refuted="Refuted if composition does not centre on 1/√d_model, or if OV scores leave 0.",
    ),
)
