"""Features that are on together share a direction, and the loss is lower for it."""

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import PAGE, headline, letter_panels, new_figure, sample_note
from circuitax.records.record import Record
from experiments.superposition.toy_constructive.claims import DEPENDENT
from experiments.superposition.toy_constructive.measures import circle, clusters, interference

KIND_COLOURS = {"independent": GREY, "circular": BLUE, "clustered": ORANGE}


def loss(record: Record) -> Figure:
    """Losses, gains of the arrangement, and its clarity, over decay."""
    data = record.data
    figure, axes = new_figure(1, 3, width=PAGE, height=2.6)
    left, middle, right = axes[0]
    at = np.arange(data.sizes["decay"])
    for kind, colour in KIND_COLOURS.items():
        one = data.sel(kind=kind)
        rows = one.loss.transpose("decay", "seed").values
        mean_curve(left, at, rows, colour, label=kind, each=True, marker="o", markersize=3)
        linear = float(one.linear_loss)
        reference_line(left, y=linear, colour=colour, style="dashed")
        gain = (one.loss / one.permuted_loss).transpose("decay", "seed").values
        mean_curve(middle, at, gain, colour, label=kind, each=True, marker="o", markersize=3)
    left.plot([], [], "--", color=GREY, linewidth=0.7, label="best linear model")
    left.set(ylabel="loss (sum over features)", ylim=(0, None))
    reference_line(middle, y=1)
    middle.set(ylabel="loss / loss when exchanged", ylim=(0, 1.1))
    for values, colour, label in (
        (circle(data), BLUE, "circle: correlation"),
        (clusters(data) / 2, ORANGE, "clusters: half the gap"),
    ):
        mean_curve(right, at, values.T, colour, label=label, each=True, marker="o", markersize=3)
    right.set(ylabel="cosines against places", ylim=(-0.1, 1.35))
    for ax in axes[0]:
        ax.set_xlabel("weight decay")
        ax.set_xticks(at, [f"{decay:g}" for decay in data.decay.values])
        ax.legend(fontsize=6, loc="lower left" if ax is not right else "upper left")
    left.set_title(f"all: means of {data.sizes['seed']} seeds, t 95 %", fontsize=7)
    mean = data.isel(decay=0).mean("seed")
    helpful = interference(data, record.notes["density"]).mean("seed")
    moved = mean.permuted_loss / mean.loss
    shares, factors = (
        [float(values.sel(kind=kind)) for kind in DEPENDENT] for values in (100 * helpful, moved)
    )
    headline(
        figure,
        f"What others add to a circular feature covaries with it by {shares[0]:.0f} % of its "
        f"variance, to a clustered one by {shares[1]:.0f} %; with directions exchanged they lose "
        f"{factors[0]:.1f} and {factors[1]:.1f} times as much",
    )
    letter_panels(axes[0])
    return figure


def arrangement(record: Record) -> Figure:
    """The first two hidden dimensions of every kind (rows) and decay (columns), first seed."""
    data = record.data
    kinds, decays = list(KIND_COLOURS), data.decay.values
    figure, axes = new_figure(len(kinds), len(decays), width=PAGE, height=4.4)
    n, size = data.sizes["feature"], data.sizes["feature"] // record.notes["n_clusters"]
    wheel = colormaps["twilight"](np.arange(n) / n)
    clustered = np.repeat([BLUE, ORANGE, GREEN, GREY], size)[:n]
    for i, kind in enumerate(kinds):
        colours = list(clustered) if kind == "clustered" else list(wheel)
        for j, decay in enumerate(decays):
            ax, W = axes[i, j], data.W.sel(kind=kind, decay=decay).isel(seed=0).values
            for feature, (x, y) in enumerate(W[:2].T):
                ax.plot([0, x], [0, y], color=colours[feature], linewidth=1.2)
            for features, (x, y) in _labels(W[:2].T):
                how = {"fontsize": 6, "ha": "center", "va": "center"}
                ax.annotate(features, (1.18 * x, 1.18 * y), **how)
            limit = 1.4 * float(np.abs(W).max())
            ax.set(aspect="equal", xlim=(-limit, limit), ylim=(-limit, limit), xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
            if i == 0:
                ax.set_title(f"weight decay {decay:g}", fontsize=7)
        axes[i, 0].set_ylabel(kind)
    follow = float(circle(data)[:, -1].mean())
    nearer = float(clusters(data)[:, -1].mean())
    headline(
        figure,
        f"Decay {decays[-1]:g}: cosines follow places on the circle with correlation {follow:.2f}; "
        f"cosines inside a cluster are {nearer:.2f} above those between clusters",
    )
    sample_note(figure, f"first of {data.sizes['seed']} seeds; the title has means over all")
    return figure


def _labels(tips: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Numbers of features at their tips, together where tips lie on each other."""
    size = np.abs(tips).max()
    groups: list[list[int]] = []
    for feature in np.flatnonzero(np.hypot(*tips.T) > 0.2 * size):
        near = (g for g in groups if np.hypot(*(tips[g[-1]] - tips[feature])) < 0.2 * size)
        group = next(near, None)
        if group is None:
            groups.append([int(feature)])
        else:
            group.append(int(feature))
    return [(", ".join(str(f + 1) for f in group), tips[group].mean(axis=0)) for group in groups]


FIGURES = (
    FigureSpec(
        "loss",
        loss,
        message="Loss over weight decay for three dependences of the same features, the loss of "
        "exchanged directions, and the clarity of the arrangement.",
        refuted="This is refuted if what others add to a dependent feature does not go with it, or "
        "exchanged directions lose no more.",
    ),
    FigureSpec(
        "arrangement",
        arrangement,
        message="Directions of the twelve features of the first seed.",
        refuted="This is refuted if neighbours in colour are not neighbours in direction.",
    ),
)
