"""Repeats diluted with plain text delay the induction head by a law, read at plain text itself."""

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from circuitax.figures.marks import interval_bars, mean_curve, reference_line, spread
from circuitax.figures.palette import BLACK, BLUE, GREY, ORANGE, SEQUENTIAL
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import headline, letter_panels, new_figure
from circuitax.records.record import Record
from experiments.induction.induction_price.measures import (
    law,
    measure,
    onsets,
    own_shares,
    seeds_alive,
)

# 89 M for 89 million, 81 T for 81 million million.
_TOKENS = EngFormatter()


def price(record: Record) -> Figure:
    """The best head's score over training, and tokens to onset against the share of repeats.

    Without seeds that stayed finite it has curves only.
    """
    data = seeds_alive(record.data)
    figure, axes = new_figure(1, 2, height=3.1)
    _curves(axes[0, 0], data)
    message = "Rarer repeats delay or prevent the induction head"
    if data.sizes["seed"] > 1:
        found = _price(axes[0, 1], data, record)
        message += f"; by their law plain text would take {found}" if found else ""
    headline(figure, message)
    letter_panels(axes[0])
    return figure


def fraction(share: float) -> str:
    """A share in words."""
    return "0 (plain text)" if share == 0 else f"{share:g}"


def _curves(ax: Axes, data: xr.Dataset) -> None:
    shares = data.share.values
    colours = colormaps[SEQUENTIAL](np.linspace(0.85, 0.1, len(shares) - 1))
    for i, share in enumerate(shares):
        # A share is trained until all its seeds have their head.
        curve = data.prefix.sel(share=share).transpose("step", "seed").dropna("step", how="all")
        curve = curve.isel(step=slice(1, None))  # the logarithmic axis has no 0
        colour = BLACK if share == 0 else to_hex(colours[i])
        mean_curve(ax, curve.tokens / 1e6, curve, colour, label=fraction(share), each=True)
    reference_line(ax, y=data.threshold, label="threshold")
    reference_line(ax, y=data.chance, label="even attention", style="dashed")
    ax.set(
        xlabel="tokens trained on, millions",
        ylabel="attention of the best head to the token\nthat followed the last time",
        ylim=(0, 1),
        xscale="log",
        xlim=(float(data.tokens[1]) / 1e6, float(data.tokens[-1]) / 1e6),
    )
    n = data.sizes["seed"]
    ax.legend(
        title=f"share of windows that repeat\n(mean of {n} seeds, 95 %)", ncols=2, loc="upper left"
    )


def _price(ax: Axes, data: xr.Dataset, record: Record) -> str:
    times = onsets(data) / 1e6
    last = float(data.tokens[-1]) / 1e6
    for share in times.share.values[:-1]:
        values = times.sel(share=share).values
        places = share * np.exp(spread(values.size, 0.06))
        seen = np.isfinite(values)
        ax.plot(places[seen], values[seen], "o", color=BLUE, markersize=3, alpha=0.8)
        ax.plot(places[~seen], np.full((~seen).sum(), last), "^", color=GREY, markersize=3.5)
    ax.plot([], [], "o", color=BLUE, markersize=3, label="onset of a seed")
    ax.plot([], [], "^", color=GREY, markersize=3.5, label="none by the end of training")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="share of windows that repeat",
        ylabel="tokens to onset, millions",
    )
    try:
        found = law(data, onsets(data))
    except ValueError:
        ax.legend(loc="upper right")
        return ""
    estimates, own = measure(record).estimates, own_shares(data)
    primary = int(data.min_period)
    least = min([s for s in own.values() if s > 0] + [float(times.share.values[-2])])
    line = np.geomspace(least / 1.5, 1, 50)
    ax.plot(line, found.at(line) / 1e6, color=BLACK, linewidth=0.8, label="most likely law")
    for length, share in own.items():
        if f"price-plain-{length}" not in estimates:
            continue
        estimate = estimates[f"price-plain-{length}"]
        colour, size = (ORANGE, 5) if length == primary else (GREY, 3)
        interval_bars(ax, [share], [estimate], colour=colour, fmt="D", markersize=size)
        ax.annotate(
            f"≥ {length} tokens",
            (share, estimate.value),
            xytext=(5, -2),
            textcoords="offset points",
            va="top",
            fontsize=6,
            color=colour,
        )
    ax.plot([], [], "D", color=ORANGE, markersize=4, label="plain text, by its own repeats of …")
    ax.invert_xaxis()
    ax.legend(loc="upper left")
    if "price-plain-text" not in estimates:
        return ""
    price = estimates["price-plain-text"]
    low, high = (_TOKENS(float(f"{1e6 * end:.2g}")) for end in (price.low, price.high))
    return f"{low} to {high} tokens"


FIGURES = (
    FigureSpec(
        "price",
        price,
        message="With fewer repeats in the text a prefix-matching head forms after more tokens, "
        "and in fewer seeds: score of the best head over training (a), and tokens to onset "
        "against the share of windows that repeat, with the law read at plain text's own share "
        "(b).",
        refuted="Refuted if the dots of b lie on no straight line, or if plain text, in black, "
        "forms a head before the law's prediction. Where triangles stand far above the dots of "
        "their share, seeds are of two kinds, which one law does not describe.",
    ),
)
