"""Does parameter decomposition find the parts of a model, when they are known exactly?"""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.sample import Absent, NotRun, Sample, mean_of_those_finite, share_of

PUBLISHED = {"small": [5, 2], "large": [40, 10]}


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
    other = any(list(sizes[size][:2]) != wanted for size, wanted in PUBLISHED.items())
    if other or target not in data.target.values:
        raise NotRun("this run has other sizes than the papers, or no such target")
    return data.sel(target=target)


def parts(data: xr.Dataset) -> Figure:
    """Importance of each live subcomponent for each feature alone, in every map of one model."""
    name = [target for target in data.target.values if target.startswith("small")][-1]
    alone = data[f"{name.replace(' ', '_')}_alone"].values
    places = data.place.values if len(alone) == 3 else data.place.values[[0, 2]]
    figure, axes = new_figure(1, len(alone), height=2.3)
    for ax, on, place in zip(axes[0], alone, places, strict=True):
        live = np.flatnonzero(on.max(axis=0) > 0.1)
        if not live.size:
            raise Absent("no subcomponent is alive")
        order = live[np.argsort(on[:, live].argmax(axis=0), kind="stable")]
        image = ax.imshow(on[:, order], vmin=0, vmax=1, cmap="Greys", aspect="auto")
        ax.set_xticks(range(len(order)), order, fontsize=6)
        ax.set_yticks(range(on.shape[0]), range(1, on.shape[0] + 1))
        ax.set(xlabel="subcomponent", title=place)
    axes[0, 0].set_ylabel("feature that is on")
    figure.colorbar(image, ax=axes[0, -1], label="importance")
    letter_panels(axes[0])
    return figure
