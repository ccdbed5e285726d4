"""Correlated features prefer right angles, anticorrelated ones opposite directions."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line, seed_dots
from circuitax.figures.palette import BLUE, DIVERGING, GREEN, GREY, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import PAGE, letter_panels, new_figure
from circuitax.records.record import Record
from experiments.superposition.toy_correlated.measures import best_weights, collapsed, pair_angles

COLOURS = (BLUE, ORANGE, GREEN)
# Collapsed pairs by the paper, from density to density.
PUBLISHED = ((0.02, 0.05, 0), (0.05, 0.15, 1), (0.15, 0.2, 2), (0.25, 0.5, 3))


def pairs(record: Record) -> Figure:
    """The best networks as arrows, and the angle inside every pair of every seed."""
    data = record.data
    figure, axes = new_figure(1, 3, height=2.3, width_ratios=[1, 1, 1.6])
    for ax, name in zip(axes[0], ("correlated", "anticorrelated"), strict=False):
        _arrows(ax, best_weights(data, name)[-1])
        p = data[f"{name}_density"].values[-1]
        ax.set_title(f"two {name} pairs\n$p$ = {p:g}, best of {data.sizes['seed']}", fontsize=7)
    right = axes[0, 2]
    places: list[int] = []
    labels: list[str] = []
    for name in ("correlated", "anticorrelated"):
        for i, p in enumerate(data[f"{name}_density"].values):
            place = len(places)
            angle = pair_angles(data[f"{name}_W"].values[:, i]).ravel()
            seed_dots(right, place, angle, GREY, half_width=0.2)
            right.plot(
                [place],
                [pair_angles(data[f"{name}_optimum_W"].values[i]).mean()],
                "s",
                color=GREEN,
                markersize=5,
                fillstyle="none",
                label="optimum" if place == 0 else None,
            )
            places.append(place)
            labels.append(f"{name}\n$p$ = {p:g}")
    reference_line(right, y=90)
    reference_line(right, y=180)
    right.set(ylabel="angle inside a pair (degrees)", ylim=(0, 190), yticks=[0, 45, 90, 135, 180])
    right.set_xticks(places, labels, fontsize=6)
    right.plot([], [], "o", color=GREY, markersize=3, label="each pair of each seed")
    right.legend(loc="lower right", fontsize=6)
    letter_panels(axes[0])
    return figure


def collapse(record: Record) -> Figure:
    """Optimum of three pairs over density as arrows, and the number of collapsed pairs."""
    data = record.data
    p = data.crowded_density.values
    figure = new_figure(1, 1, width=PAGE, height=3.2)[0]
    figure.clf()
    grid = figure.add_gridspec(2, len(p), height_ratios=[1, 2])
    for i, density in enumerate(p):
        ax = figure.add_subplot(grid[0, i])
        _arrows(ax, data.crowded_optimum_W.values[i])
        ax.set_title(f"$p$ = {density:g}", fontsize=7)
    below = figure.add_subplot(grid[1, :])
    for low, high, count in PUBLISHED:
        label = "published range" if count == 0 else None
        below.fill_between(
            [low, high],
            count - 0.12,
            count + 0.12,
            color=ORANGE,
            alpha=0.35,
            linewidth=0,
            label=label,
        )
    every = collapsed(data.crowded_W.values)
    random = np.random.default_rng(0)
    shake = np.exp(random.uniform(-0.03, 0.03, every.shape))
    lift = random.uniform(-0.08, 0.08, every.shape)
    label = f"each of {len(every)} seeds"
    below.plot(
        (p[None, :] * shake).ravel(),
        (every + lift).ravel(),
        ".",
        color=GREY,
        markersize=3,
        label=label,
    )
    best = collapsed(best_weights(data, "crowded"))
    below.plot(p, best, "o", color=BLUE, markersize=5, label="lowest exact loss of the seeds")
    below.plot(
        p,
        collapsed(data.crowded_optimum_W.values),
        "s",
        color=GREEN,
        markersize=9,
        fillstyle="none",
        label="optimum",
    )
    below.set(xscale="log", ylabel="collapsed pairs of three", yticks=[0, 1, 2, 3])
    below.set(xlabel="density of a pair $p$")
    below.set_xticks(p, [f"{value:g}" for value in p])
    below.minorticks_off()
    below.legend(loc="upper left", fontsize=6)
    figure.suptitle("optimum of three correlated pairs (colours) in two dimensions", fontsize=8)
    return figure


def bases(record: Record) -> Figure:
    """W^T W of the local bases, for the seed of lowest training loss at each density."""
    data = record.data
    density = data.basis_density.values
    figure, axes = new_figure(1, len(density), width=min(PAGE, 3.25 * len(density)), height=2.4)
    n = data.sizes["basis_feature"] // 2
    for i, ax in enumerate(axes[0]):
        seed = int(np.nanargmin(data.basis_loss.values[:, i]))
        W = data.basis_W.values[seed, i]
        image = ax.imshow(W.T @ W, cmap=DIVERGING, vmin=-1, vmax=1, rasterized=True)
        for edge in ("h", "v"):
            line = ax.axhline if edge == "h" else ax.axvline
            line(n - 0.5, color="black", linewidth=0.5)
        ax.set(xticks=[0, n, 2 * n - 1], yticks=[0, n, 2 * n - 1], xlabel="feature")
        ax.set_title(f"two sets of {n} in {n} dimensions, $p$ = {density[i]:g}", fontsize=7)
    axes[0, 0].set_ylabel("feature")
    figure.colorbar(image, ax=axes, label=r"entry of $W^\top W$")
    return figure


def _arrows(ax: Axes, W: np.ndarray) -> None:
    """Columns of W; one colour for each pair, its second member lighter."""
    for feature in range(W.shape[1]):
        colour = to_rgba(COLOURS[feature // 2], 1.0 if feature % 2 == 0 else 0.55)
        x, y = W[:, feature]
        ax.plot(
            [0, x], [0, y], color=colour, linewidth=1.5, marker="o", markevery=[1], markersize=2.5
        )
    ax.set(aspect="equal", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


FIGURES = (
    FigureSpec(
        "pairs",
        pairs,
        message="Members of a correlated pair are orthogonal; those of an anticorrelated pair are "
        "antipodal at the optimum and in the best network, but orthogonal in most seeds.",
        refuted="This is refuted if a square is away from its line, 90 or 180, or if dots lie on "
        "neither.",
    ),
    FigureSpec(
        "collapse",
        collapse,
        message="Three correlated pairs in two dimensions collapse one after the other as they "
        "become denser.",
        refuted="This is refuted where the squares of the optimum leave the published steps.",
    ),
    FigureSpec(
        "bases",
        bases,
        message="Two sets of correlated features each get an orthogonal basis.",
        refuted="This is refuted if a diagonal block is not the identity.",
    ),
)
