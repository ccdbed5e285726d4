"""Small training sets become polygons of samples, large ones a pentagon of features."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import PAGE, headline, letter_panels, new_figure
from circuitax.records.record import Record
from experiments.superposition.toy_memorization.measures import CORNERS, bump, pentagons

MOST_SHOWN = 6
LEAST = 0.1  # of the losses shown: fewer points are memorised to much less


def descent(record: Record) -> Figure:
    """Test loss at every decay; norms of W; dimensions of samples and features."""
    data = record.data
    figure, axes = new_figure(1, 3, width=PAGE, height=2.7)
    x, sets = data.points.values, data.sizes["dataset"]
    loss, norm, dimension = axes[0]
    for i, decay in enumerate(data.decay.values):
        one, colour = data.isel(decay=i), (BLUE, ORANGE)[i % 2]
        label = f"weight decay {decay:g}"
        for ax, values in ((loss, one.test_loss), (norm, one.W_norm)):
            rows = values.transpose("points", "dataset").values
            mean_curve(
                ax,
                x,
                rows,
                colour,
                label=label,
                each=True,
                least=LEAST,
                marker="o",
                markersize=2.5,
            )
    first = data.isel(decay=0)
    train = first.train_loss.min("restart").transpose("points", "dataset").values
    label = f"training loss, decay {data.decay.values[0]:g}"
    mean_curve(loss, x, train, GREY, label=label, linestyle="--", least=LEAST)
    reference_line(loss, y=1)
    loss.set(ylabel="loss (sum over features)", yscale="log", ylim=(LEAST, None))
    norm.plot(x, np.sqrt(x) * data.least_norm.values, "--", color=GREY, label="exact least, T-gon")
    reference_line(norm, y=5**0.5, label=r"$\sqrt{5}$")
    norm.set(ylabel=r"$|W|_F$", ylim=(0, 1.8 * float(data.W_norm.max())))
    ordered = np.sort(first.feature_dimension.transpose("points", "dataset", "feature").values)
    samples = first.sample_dimension.transpose("points", "dataset").values
    label = r"samples, mean $D_X$"
    mean_curve(dimension, x, samples, GREEN, label=label, marker="o", markersize=2.5)
    features = ordered[..., -CORNERS:].mean(axis=-1)
    label = r"five largest $D_f$, mean"
    mean_curve(dimension, x, features, ORANGE, label=label, marker="o", markersize=2.5)
    dimension.plot(x, 2 / x, ":", color=GREY, label="$m/T$")
    reference_line(dimension, y=2 / 5)
    dimension.set(ylabel="dimensionality", ylim=(0, 0.75))
    for ax in axes[0]:
        ax.set(xscale="log", xlabel="training points $T$")
        ax.legend(fontsize=6, loc="upper right", frameon=True, framealpha=1, edgecolor="none")
    loss.set_ylim(top=60 * float(data.test_loss.max()))  # room for the legend
    dimension.set_title(f"means of {sets} sets, t 95 %", fontsize=7)
    peak = float(first.test_loss.sel(points=bump(data)).mean())
    headline(
        figure,
        f"{x[0]:g} points are stored as points ({samples[0].mean():.2f} dimensions each), "
        f"{x[-1]:g} as features ({features[-1].mean():.2f} each, the five largest); between, "
        f"at {bump(data)}, the test loss peaks at {peak:.1f}.",
    )
    letter_panels(axes[0])
    return figure


def polygons(record: Record) -> Figure:
    """Features (above) and hidden vectors of samples (below) of the first training set."""
    data = record.data
    at = _shown(data)
    figure, axes = new_figure(2, len(at), width=PAGE, height=2.6)
    for column, size in enumerate(at):
        W = data.W.sel(points=size).isel(dataset=0).values
        vectors = data.shown_vectors.sel(points=size).values[:, :size]
        _rays(axes[0, column], W, BLUE)
        _rays(axes[1, column], vectors, GREEN)
        axes[0, column].set_title(f"$T$ = {size}", fontsize=7)
    found = pentagons(data)
    headline(
        figure,
        f"Few samples become a polygon; {sum(found)} of {len(found)} sets of {at[-1]} make a "
        "regular pentagon of features (first set shown)",
    )
    axes[0, 0].set_ylabel("features")
    axes[1, 0].set_ylabel("samples")
    return figure


def _shown(data: xr.Dataset) -> list[int]:
    """Evenly chosen numbers of points: the first, the last, and that of the bump among them."""
    sizes = data.points.values
    chosen = set(np.linspace(0, sizes.size - 1, min(MOST_SHOWN, sizes.size)).round().astype(int))
    return sorted({int(sizes[i]) for i in chosen} | {bump(data)})


def _rays(ax: Axes, vectors: np.ndarray, colour: str) -> None:
    """Vectors from the origin, each picture at its own scale."""
    limit = 1.1 * float(np.abs(vectors).max())
    zeros = np.zeros(vectors.shape[1])
    ax.plot(*np.stack([[zeros, vectors[0]], [zeros, vectors[1]]]), color=colour, linewidth=0.4)
    ax.plot(*vectors, ".", color=colour, markersize=2.5, rasterized=True)
    ax.set(aspect="equal", xlim=(-limit, limit), ylim=(-limit, limit), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


FIGURES = (
    FigureSpec(
        "descent",
        descent,
        message="Test loss, norms and dimensions over the number of training points.",
        caption="Samples occupy the dimensions first, features last, and the test loss has a bump "
        "between.",
        refuted="This is refuted if the test loss falls throughout, or if the largest D_f are "
        "there from the start.",
    ),
    FigureSpec(
        "polygons",
        polygons,
        message="Directions of features and hidden vectors of samples in one training set.",
        refuted="This is refuted if hidden vectors of few points are no regular polygon, or "
        "features of many points no pentagon.",
    ),
)
