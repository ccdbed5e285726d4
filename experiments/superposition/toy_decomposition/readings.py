"""Does parameter decomposition find the parts of a model, when they are known exactly?"""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import interval_bars, legend_above, seed_dots
from circuitax.figures.palette import BLACK, BLUE, GREY, PINK
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
    """Cosines and norm ratios of every target, before training and after it."""
    figure, axes = new_figure(1, 2, width=PAGE, height=2.6)
    targets = data.target.values.tolist()
    named = []
    for target in targets:
        n, m, _ = data.attrs["sizes"][target.removesuffix(" ID")]
        named.append(f"{n}-{m}\n+ ID" if target.endswith("ID") else f"{n}-{m}")
    panels = (("cosine", "mean max cosine"), ("norm_ratio", "norm ratio"))
    for score, (ax, (name, what)) in enumerate(zip(axes[0], panels, strict=True)):
        rows = data[name].transpose("target", "seed").values
        for place, row in enumerate(rows):
            seed_dots(ax, place, row, BLUE, half_width=0.08, size=4, opacity=0.35)
        means = [mean_of_finite(row) for row in rows]
        label = f"means of {rows.shape[1]} seeds"
        interval_bars(ax, range(len(rows)), means, colour=BLUE, fmt="o", markersize=3, label=label)
        starts = data[f"start_{name}"].mean("seed").values
        ax.plot(starts, "_", color=GREY, markersize=12, label="before training")
        for papers, mark, colour, who in ((SPD, "x", BLACK, "SPD"), (APD, "+", PINK, "APD")):
            at = [i for i, target in enumerate(targets) if target in papers]
            printed = [papers[targets[i]][score] for i in at]
            how: dict[str, Any] = {"markersize": 6, "zorder": 5, "label": f"{who}, as printed"}
            ax.plot(at, printed, mark, color=colour, **how)
        ax.set_xticks(range(len(rows)), named)
        ax.set_ylabel(what)
    legend_above(figure, axes[0, 0], 4, title="dots: seeds, each its own target; bars: t 95 %")
    letter_panels(axes[0])
    return figure


def parts(data: xr.Dataset) -> Figure:
    """Importance of each live subcomponent for each feature alone, in every map of one model."""
    name = [target for target in data.target.values if target.startswith("small")][-1]
    alone = data[f"{name.replace(' ', '_')}_alone"].values
    places = data.place.values if len(alone) == 3 else data.place.values[[0, 2]]
    figure, axes = new_figure(1, len(alone), width=PAGE, height=2.3)
    for ax, on, place in zip(axes[0], alone, places, strict=True):
        strongest = on.max(axis=0)
        live = np.flatnonzero(strongest > 0.1) if strongest.max() > 0.1 else np.arange(1)
        order = live[np.argsort(on[:, live].argmax(axis=0), kind="stable")]
        image = ax.imshow(on[:, order], vmin=0, vmax=1, cmap="Greys", aspect="auto")
        ax.set_xticks(range(len(order)), order, fontsize=6)
        ax.set_yticks(range(on.shape[0]), range(1, on.shape[0] + 1))
        ax.set(xlabel="subcomponent", title=place)
    axes[0, 0].set_ylabel("feature that is on")
    figure.colorbar(image, ax=axes[0, -1], label="importance")
    letter_panels(axes[0])
    return figure
