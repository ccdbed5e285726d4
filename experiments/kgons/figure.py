"""One-hot data: up to seven features one polygon holds them all; at eight one is better left out.

kgons       The k-gon of all c = k features starts below every smaller polygon, until k = 8.
            Refuted if a curve of k up to 7 starts above another one, or that of 8 does not.
"""

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.style import BLACK, letter_panels, new_figure, styled
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
    shape.axhline(0, color=BLACK, linewidth=0.5)
    shape.plot(ks, data.norm.values, "-", color="#BBBBBB", zorder=0)
    shape.plot(ks, data.bias.values, "--", color="#BBBBBB", zorder=0)
    for k, colour, mark, norm, bias in zip(
        ks, colours, MARKS, data.norm.values, data.bias.values, strict=False
    ):
        shape.plot([k], [norm], mark, color=colour)
        shape.plot([k], [bias], mark, color=colour, markerfacecolor="white")
    shape.text(ks[1], data.norm.values[1] + 0.12, "norm $l^*$", fontsize=7)
    shape.text(ks[1], data.bias.values[1] + 0.08, "bias $b^*$", fontsize=7)
    shape.set(xlabel="vertices $k$", ylabel="optimum of the $k$-gon", xticks=ks)
    for k, colour, mark in zip(ks, colours, MARKS, strict=False):
        best = data.potential.sel(k=k).fillna(np.inf).min("positive").values
        known = np.isfinite(best)
        potential.plot(cs[known], best[known], mark + "-", color=colour, label=f"{k}-gon",
                       linewidth=1)  # fmt: skip
    potential.set(xlabel="features $c$", ylabel="lowest potential $L(k, c)$", ylim=(0, None))
    potential.legend(ncols=2)
    letter_panels(axes[0])
    return {"kgons": figure}
