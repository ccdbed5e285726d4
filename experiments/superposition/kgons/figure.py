"""One-hot data: one polygon holds up to seven features best; at eight one is better left out."""

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.marks import zero_line
from circuitax.figures.palette import BLUE, GREY, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import headline, letter_panels, new_figure
from circuitax.records.record import Record
from experiments.superposition.kgons.measures import LEVEL
from experiments.superposition.kgons.plateaus import kgon_losses, nearest_kgon, plateaus

MARKS = "osD^vP*Xd"


def kgons(record: Record) -> Figure:
    """Norm and bias of k-gons over k, and by how much potentials exceed the lowest, over c."""
    data = record.data
    ks, cs = data.k.values, data.n_features.values
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(ks)))
    figure, axes = new_figure(1, 2, height=2.4, width_ratios=[1, 1.5])
    shape, potential = axes[0]
    lowest = data.potential.min(("positive", "k")).values
    zero_line(shape)
    zero_line(potential)
    shape.plot(ks, data.norm.values, "-", color="#BBBBBB", zorder=0)
    shape.plot(ks, data.bias.values, "--", color="#BBBBBB", zorder=0)
    for k, colour, mark in zip(ks, colours, MARKS, strict=False):
        gon = data.sel(k=k)
        shape.plot([k], [gon.norm], mark, color=colour)
        shape.plot([k], [gon.bias], mark, color=colour, markerfacecolor="white")
        best = gon.potential.min("positive").values
        line = {"color": colour, "linewidth": 1, "label": f"{k}-gon"}
        potential.plot(cs[cs >= k], (best - lowest)[cs >= k], mark + "-", **line)
    for label, name, side in (("norm $l^*$", "norm", "right"), ("bias $b^*$", "bias", "left")):
        where = {"xytext": (0, 5), "textcoords": "offset points", "ha": side}
        shape.annotate(label, (ks[2], data[name].values[2]), fontsize=7, **where)
    shape.set(xlabel="vertices $k$", ylabel="optimum of the $k$-gon", xticks=ks)
    potential.set(xlabel="features $c$", ylabel="$L(k, c)$ above the lowest", ylim=(-3e-4, 2))
    # Linear up to 0.001, so that 0 and differences of 0.0003 are seen beside 0.05.
    potential.set_yscale("symlog", linthresh=1e-3)
    potential.legend(ncols=3, loc="upper left")
    letter_panels(axes[0])
    return figure


def training(record: Record) -> Figure:
    """Losses over training beside those of k-gons, and curvatures at k-gons."""
    data, n_features = record.data, int(record.notes["trained"])
    figure, axes = new_figure(1, 2, height=2.8, width_ratios=[1.6, 1])
    left, right = axes[0]
    losses = kgon_losses(data, n_features)
    step, loss = data.step.values, data.loss.transpose("step", "seed").values
    left.plot(step, loss, color=BLUE, linewidth=0.6, alpha=0.5)
    for k, level in zip(losses.vertices.values[2:], losses.values[2:], strict=True):
        left.axhline(level, color=GREY, linewidth=0.8, linestyle="--", zorder=0)
        left.annotate(
            f"{k}-gon",
            (step[-1], level),
            xytext=(2, 0),
            textcoords="offset points",
            fontsize=6.5,
            va="center",
        )
    found = plateaus(step, loss)
    for one in found:
        colour = BLUE if nearest_kgon(one.level, losses) >= 0 else ORANGE
        middle = (one.begin + one.end) / 2
        left.plot([middle], [one.level], "o", color=colour, markersize=3)
    left.plot([], [], "o", color=BLUE, markersize=3, label="rests at a k-gon's loss")
    left.plot([], [], "o", color=ORANGE, markersize=3, label="rests elsewhere")
    left.set(xlabel="step", ylabel="exact loss $L$", yscale="log", xlim=(0, step[-1]))
    left.set_yticks([0.05, 0.1, 0.2, 0.3], ["0.05", "0.1", "0.2", "0.3"])
    left.minorticks_off()
    left.legend(loc="upper right", fontsize=6.5)
    ks = data.k.values[1:]
    for place, k in enumerate(ks):
        curvatures = data.curvature.sel(k=k).dropna("parameter").values
        size = np.maximum(np.abs(curvatures), 1e-9)
        at = place + np.linspace(-0.3, 0.3, size.size)
        faces = [BLUE if c >= -LEVEL else "white" for c in curvatures]
        right.scatter(at, size, s=8, c=faces, edgecolors=BLUE, linewidths=0.7)
    right.axhspan(5e-10, LEVEL, color=GREY, alpha=0.3, linewidth=0)
    right.text(0.97, 0.1, "counts as 0", transform=right.transAxes, ha="right", fontsize=6.5)
    right.set(yscale="log", xlabel="vertices $k = c$", ylabel="curvatures at the $k$-gon")
    right.set_xticks(range(len(ks)), [str(k) for k in ks])
    at_kgons = sum(nearest_kgon(one.level, losses) >= 0 for one in found)
    headline(
        figure,
        f"{at_kgons} of {len(found)} plateaus of {loss.shape[1]} networks lie at losses of k-gons",
    )
    letter_panels(axes[0])
    return figure


FIGURES = (
    FigureSpec(
        "kgons",
        kgons,
        message="Up to seven features, the lowest polygon holds all of them; of eight, it leaves "
        "one out.",
        caption="Up to k = 7, the k-gon of all c = k features has a lower potential than every "
        "smaller polygon; the 8-gon has not. At every c the lowest polygon lies on 0.",
        refuted="This is refuted if a curve of k up to 7 starts above 0, or that of k = 8 does "
        "not.",
    ),
    FigureSpec(
        "training",
        training,
        message="Exact loss of networks of six features in training, with marks at plateaus "
        "(left).",
        refuted="It is refuted that training rests at k-gons where marks lie between the lines. "
        "Right: the loss curves up in all directions around a k-gon but one, its rotation. This "
        "is refuted if more than one dot of a k lies in the grey band, or a dot is open (curved "
        "down).",
    ),
)
