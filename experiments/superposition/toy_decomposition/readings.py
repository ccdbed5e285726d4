"""Does parameter decomposition find the parts of a model, when they are known exactly?"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from circuitax.figures.marks import interval_bars, reference_line, seed_dots
from circuitax.figures.palette import BLACK, BLUE, COLOURS, GREY, ORANGE, PINK
from circuitax.figures.style import PAGE, letter_panels, new_figure
from circuitax.records.estimate import mean_of_finite
from circuitax.records.sample import NotRun, Sample, mean_of_those_finite, share_of

PUBLISHED = {"small": [5, 2], "large": [40, 10]}
# Mean max cosine and norm ratio. SPD: table of arXiv 2506.20790; APD: arXiv 2501.14926, which has
# no targets with an identity.
SPD = {
    "small": (1.0, 0.993),
    "small ID": (1.0, 0.992),
    "large": (1.0, 1.010),
    "large ID": (1.0, 1.031),
}
APD = {"small": (0.998, 0.893), "large": (0.996, 0.935)}


def by_chance(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """As many subcomponents alive on average, each by chance; each feature turns on any one."""
    alive, own = data.alive.copy(), data.one_to_one.copy()
    for target in data.target.values:
        features, _, components = data.attrs["sizes"][target.removesuffix(" ID")]
        here = alive.sel(target=target)
        share = here.mean("seed").fillna(0) / components
        drawn = rng.binomial(components, share.broadcast_like(here).transpose(*here.dims))
        alive.loc[{"target": target}] = here.copy(data=np.where(np.isnan(here), np.nan, drawn))
        chosen = rng.integers(components, size=(data.sizes["seed"], features))
        same = (chosen[:, :, None] == chosen[:, None, :]).sum(axis=-1)
        own.loc[{"target": target}] = (same == 1).mean(axis=1)
    return data.assign(alive=alive, one_to_one=own)


WORLDS = {"by_chance": by_chance}


def score(data: xr.Dataset, target: str, name: str) -> Sample:
    """Mean over seeds of a score of a target."""
    return mean_of_those_finite(_of(data, target)[name].values)


def shrinkage(data: xr.Dataset, target: str, name: str = "norm_ratio") -> Sample:
    """Mean over seeds of the distance of the norm ratio from 1."""
    return mean_of_those_finite(abs(_of(data, target)[name] - 1).values)


def as_many(data: xr.Dataset, target: str, place: str) -> Sample:
    """Share of seeds with as many live subcomponents as there are features, or dimensions."""
    n, m, _ = data.attrs["sizes"][target.removesuffix(" ID")]
    alive = _of(data, target).alive.sel(place=place).values
    return share_of(alive[np.isfinite(alive)] == (m if place == "identity" else n))


def _of(data: xr.Dataset, target: str) -> xr.Dataset:
    """The part of a target, of a run with the papers' sizes."""
    sizes = data.attrs["sizes"]
    if any(list(sizes[size][:2]) != wanted for size, wanted in PUBLISHED.items()):
        raise NotRun("this run has other sizes than the papers")
    if target not in data.target.values:
        raise NotRun("this run has no such target")
    return data.sel(target=target)


def scores(data: xr.Dataset) -> Figure:
    """Cosines, norm ratios and numbers of live subcomponents of every target."""
    figure, axes = new_figure(1, 3, width=PAGE, height=2.6)
    cosine, ratio, alive = axes[0]
    for name, shift, colour in (("cosine", -0.15, BLUE), ("rank_one", 0.15, ORANGE)):
        _dots(cosine, data, name, shift, colour)
        starts = data[f"start_{name}"].mean("seed").values
        cosine.plot(np.arange(len(starts)) + shift, starts, "_", color=colour, markersize=9)
    _papers(cosine, data, 0)
    cosine.set(ylabel="mean max cosine", title="features found")
    _dots(ratio, data, "norm_ratio", 0, BLUE)
    _papers(ratio, data, 1)
    reference_line(ratio, y=1)
    ratio.set(ylabel="norm ratio", title="shrinkage")
    _alive(alive, data)
    for ax in axes[0]:
        ax.set_xticks(range(data.sizes["target"]), _labels(data))
    marks = [
        Line2D([], [], marker="o", linestyle="", color=BLUE, label="rows (papers' score)"),
        Line2D([], [], marker="o", linestyle="", color=ORANGE, label="whole subcomponents"),
        Line2D([], [], marker="_", linestyle="", color=GREY, label="before training"),
        Line2D([], [], marker="x", linestyle="", color=BLACK, label="SPD, as printed"),
        Line2D([], [], marker="+", linestyle="", color=PINK, label="APD, as printed"),
    ]
    small, *_, large = data.cosine.count("seed").values
    n = f"{small}" if small == large else f"{small} and {large}"
    title = f"dots: {n} seeds, each its own target; bars: mean, t interval 95 %"
    figure.legend(handles=marks, loc="outside lower center", ncols=5, title=title)
    letter_panels(axes[0])
    return figure


def parts(data: xr.Dataset) -> Figure:
    """Positions of one model's subcomponents, and the active ones for each feature."""
    name = [target for target in data.target.values if target.startswith("small")][-1]
    prefix = name.replace(" ", "_")
    alone = data[f"{prefix}_alone"].transpose(..., "small_feature", "small_component").values
    maps = ("encoder", "identity", "decoder") if len(alone) == 3 else ("encoder", "decoder")
    widths = (1, *(0.5 if place == "identity" else 1 for place in maps))
    figure, axes = new_figure(1, len(widths), width=PAGE, height=2.5, width_ratios=widths)
    _rows(axes[0, 0], data, prefix)
    for ax, on, place in zip(axes[0, 1:], alone, maps, strict=True):
        strongest = on.max(axis=0)
        live = np.flatnonzero(strongest > 0.1) if strongest.max() > 0.1 else np.arange(1)
        order = live[np.argsort(on[:, live].argmax(axis=0), kind="stable")]
        image = ax.imshow(on[:, order], vmin=0, vmax=1, cmap="Greys", aspect="auto")
        ax.set_xticks(range(len(order)), order, fontsize=6)
        ax.set_yticks(range(on.shape[0]), range(1, on.shape[0] + 1))
        ax.set(xlabel="subcomponent", title=place)
    axes[0, 1].set_ylabel("feature that is on")
    figure.colorbar(image, ax=axes[0, -1], label="importance")
    letter_panels(axes[0])
    return figure


def _rows(ax: Axes, data: xr.Dataset, prefix: str) -> None:
    """True directions as lines, and row i of each subcomponent as a dot in the colour of i."""
    W = data["small_W"].isel(small_seed=0).transpose("small_hidden", "small_feature").values
    V = data[f"{prefix}_V"].transpose("small_component", "small_feature").values
    U = data[f"{prefix}_U"].transpose("small_component", "small_hidden").values
    for i in range(W.shape[1]):
        colour = COLOURS[i] if i < len(COLOURS) else GREY
        ax.plot([0, W[0, i]], [0, W[1, i]], color=colour, linewidth=1)
        ax.plot(V[:, i] * U[:, 0], V[:, i] * U[:, 1], "o", color=colour, markersize=3, alpha=0.7)
        ax.annotate(
            str(i + 1), (1.12 * W[0, i], 1.12 * W[1, i]), ha="center", va="center", fontsize=7
        )
    ax.set_aspect("equal")
    ax.margins(0.15)
    ax.set(title="lines: true, dots: found", xlabel="hidden 1", ylabel="hidden 2")


def _dots(ax: Axes, data: xr.Dataset, name: str, shift: float, colour: str) -> None:
    rows = data[name].transpose("target", "seed").values
    at = np.arange(len(rows)) + shift
    for place, row in zip(at, rows, strict=True):
        seed_dots(ax, place, row, colour, half_width=0.08, size=4, opacity=0.35)
    found = [mean_of_finite(row) for row in rows]
    interval_bars(ax, at, found, colour=colour, fmt="o", markersize=3)


def _papers(ax: Axes, data: xr.Dataset, score: int) -> None:
    for i, target in enumerate(data.target.values):
        ax.plot(i, SPD[target][score], "x", color=BLACK, markersize=5, zorder=5)
        if target in APD:
            ax.plot(i, APD[target][score], "+", color=PINK, markersize=6, zorder=5)


def _alive(ax: Axes, data: xr.Dataset) -> None:
    """Live subcomponents over true ones, in each map."""
    shown = (("encoder", BLUE, -0.2), ("identity", BLACK, 0.0), ("decoder", GREY, 0.2))
    for place, colour, shift in shown:
        for i, target in enumerate(data.target.values):
            n, m, _ = data.attrs["sizes"][target.removesuffix(" ID")]
            values = data.alive.sel(target=target, place=place).values
            label = place if i == data.sizes["target"] - 1 else None
            over = values / (m if place == "identity" else n)
            seed_dots(ax, i + shift, over, colour, half_width=0.06, size=5, label=label)
    reference_line(ax, y=1)
    ax.set_ylim(0)
    ax.set(ylabel="alive / true number", title="subcomponents alive")
    ax.legend(fontsize=6)


def _labels(data: xr.Dataset) -> list[str]:
    names = []
    for target in data.target.values:
        n, m, _ = data.attrs["sizes"][target.removesuffix(" ID")]
        names.append(f"{n}-{m}\n+ ID" if target.endswith("ID") else f"{n}-{m}")
    return names
