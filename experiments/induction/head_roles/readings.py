"""Roles of heads: what is read from the record, and its figures."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_bars, seed_column
from circuitax.figures.palette import BLACK, BLUE, GREY, ORANGE, SEQUENTIAL
from circuitax.figures.style import COLUMN, new_figure, sample_note
from circuitax.records.record import members_where
from circuitax.records.sample import Absent, Sample, exactly, mean_of
from experiments.induction.shared.head_roles import PREVIOUS_SCORE, formed


def through(data: xr.Dataset, route: str) -> Sample:
    """Lead that the previous-token head wins back through one kind of reader, over all of them."""
    members = formed(data)
    routes = members.routes.isel(writer=members.previous_head)
    return mean_of(routes.sel(route=route) / routes.sel(route="all"))


def won_back(data: xr.Dataset, offset: int) -> Sample:
    """Lead won back so many places behind the swapped tokens, over that of all places by size."""
    members = formed(data)
    before = members.stream.sel(place="into layer 1")
    there = before.isel(position=members.swapped.values + offset).sum("position")
    return mean_of(there / np.abs(before).sum("position"))


def norms(data: xr.Dataset) -> dict[str, Sample]:
    """Nats lost with constant norms, also over what a model saves against a uniform guess."""
    full = _full(data)
    saved = full.full_uniform - full.loss
    return {
        "norm-costs": mean_of(full.norm_price),
        "norm-absorbed": mean_of(full.norm_price / saved),
    }


def component_share(data: xr.Dataset) -> Sample:
    """Nats lost with a head or an MLP at its mean, mean of all, over what a model saves."""
    full = _full(data)
    lost = full.nats_lost.sel(replaced="mean").mean("cell")
    return mean_of(lost / (full.full_uniform - full.loss))


def remainder(data: xr.Dataset) -> Sample:
    """Greatest rest of the logits beside direct effects and bias, over the greatest logit."""
    return exactly(_full(data).remainder_full.max())


def _full(data: xr.Dataset) -> xr.Dataset:
    full = members_where(data, "full_alive")
    if not full.sizes["full_member"]:
        raise Absent("every full transformer has diverged")
    return full


def patching(data: xr.Dataset) -> Figure:
    """Stream patches by place and position."""
    members = formed(data)
    figure, axes = new_figure(1, 1, height=2.2)
    heat = axes[0, 0]
    shares = members.stream.mean("member").transpose("place", "position").values
    image = heat.imshow(shares, vmin=0, vmax=1, cmap=SEQUENTIAL, aspect="auto", origin="lower")
    for place, position in zip(*np.nonzero(shares > 0.1), strict=True):
        share = shares[place, position]
        how = {"ha": "center", "va": "center", "fontsize": 6}
        heat.text(position, place, f"{share:.2f}", color="white" if share < 0.7 else BLACK, **how)
    heat.set_yticks(range(len(members.place)), list(members.place.values))
    heat.set_title("clean stream put into the corrupted text, one place at a time")
    figure.colorbar(image, ax=heat, label="lead won back", shrink=0.9)
    n_ctx = shares.shape[1]
    a, z = (int(i) for i in members.swapped.values)
    labels = {a: "a\nz", a + 1: "b\nb", z: "z\na", z + 1: "d\nd", n_ctx - 1: "a\na"}
    heat.set_xticks(range(n_ctx), [labels.get(i, "·\n·") for i in range(n_ctx)])
    heat.set_xlabel("position: clean token above corrupted one")
    sample_note(figure, f"mean of {members.sizes['member']} seeds with an induction head")
    return figure


def paths(data: xr.Dataset) -> Figure:
    """Routes from the first layer to the second, by who reads."""
    members = formed(data)
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.6)
    routes = axes[0, 0]
    at = members.routes.transpose("member", "writer", "route").values
    looks_back = members.previous.isel(layer=0) > PREVIOUS_SCORE
    previous = looks_back.transpose("member", "head").values
    for shift, label, mask, colour in (
        (-0.2, "previous-token heads", previous, BLUE),
        (0.2, "other heads of layer 0", ~previous, GREY),
    ):
        has = mask.any(axis=1)
        if has.any():
            summed = np.where(mask[..., None], at, 0).sum(axis=1)[has]
            mean_bars(routes, summed.T, colour, shift=shift, width=0.38, label=label)
    names = {"Q": "queries", "K": "keys", "V": "values", "direct": "logits", "all": "all"}
    routes.set_xticks(range(len(members.route)), [names[str(r)] for r in members.route.values])
    routes.axhline(0, color=BLACK, linewidth=0.5)
    routes.set(title="what layer 0 tells, by who reads it", xlabel="put back into layer 1's")
    routes.set(ylabel="lead of the right answer,\nshare won back")
    routes.set_ylim(top=1.45)
    routes.legend(loc="upper left")
    seeds = members.sizes["member"]
    sample_note(figure, f"mean and 95 % interval of {seeds} seeds with an induction head")
    return figure


def norms_figure(data: xr.Dataset) -> Figure:
    """Nats lost with each head or MLP at its mean output, and with constant norms, by seed."""
    full = members_where(data, "full_alive")
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.4)
    ax, cells = axes[0, 0], [str(cell) for cell in full.cell.values]
    lost = full.nats_lost.sel(replaced="mean")
    kinds = sorted({_kind(cell) for cell in cells})
    for x, kind in enumerate(kinds):
        chosen = lost.isel(cell=[_kind(cell) == kind for cell in cells])
        seed_column(ax, x, chosen.mean("cell").values, BLUE, form=".2f")
    seed_column(ax, len(kinds), full.norm_price.values, ORANGE, form=".2f")
    ax.set_xticks(range(len(kinds) + 1), [*kinds, "constant\nnorms"])
    ax.set(yscale="log", ylabel="nats lost per token")
    sample_note(figure, f"{full.sizes['full_member']} seeds; heads: mean of a layer")
    return figure


def _kind(cell: str) -> str:
    kind, _, place = cell.partition(" ")
    return f"{'heads' if kind == 'head' else 'MLP'} of\nlayer {place.partition('.')[0]}"
