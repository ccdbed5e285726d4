"""One-hot data: up to seven features one polygon holds them all; at eight one is better left out.

kgons       Up to seven features one polygon holds them all; of eight, one is left out. Up to k = 7,
            the k-gon of all c = k features has a lower potential than every smaller
            polygon; the 8-gon has not. At every c the lowest polygon lies on 0. This is refuted if
            a curve of k up to 7 starts above 0, or that of k = 8 does not.
"""

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.marks import zero_line
from circuitax.figures.style import letter_panels, new_figure, styled
from circuitax.records.record import Record

MARKS = "osD^vP*Xd"


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The figure of the experiment."""
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
    return {"kgons": figure}
