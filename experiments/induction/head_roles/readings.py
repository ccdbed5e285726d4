"""Roles of heads: what is read from the record, and its figures."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_bars, reference_line, seed_column, spread
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE, SEQUENTIAL
from circuitax.figures.style import COLUMN, letter_panels, new_figure, sample_note
from circuitax.records.members import members_where
from circuitax.records.sample import Absent, Sample, exactly, mean_of, share_of
from experiments.induction.shared.head_roles import (
    INDUCTION,
    PREFIX_SCORE,
    PREVIOUS,
    PREVIOUS_SCORE,
)

ROLES = (("other head", GREY), ("previous-token head", BLUE), ("induction head", ORANGE))
LAYERS = ("layer 0", "layer 1")
HALF = 0.28  # how far dots spread to either side


def through(data: xr.Dataset, route: str) -> Sample:
    """Lead that the previous-token head wins back through one kind of reader, over all of them."""
    members = _formed(data)
    routes = members.routes.isel(writer=members.previous_head)
    return mean_of(routes.sel(route=route) / routes.sel(route="all"))


def won_back(data: xr.Dataset, offset: int) -> Sample:
    """Lead won back so many places behind the swapped tokens, over that of all places by size."""
    members = _formed(data)
    before = members.stream.sel(place="into layer 1")
    there = before.isel(position=members.swapped.values + offset).sum("position")
    return mean_of(there / np.abs(before).sum("position"))


def largest_joins(data: xr.Dataset) -> Sample:
    """Share of seeds whose largest single edge runs from a previous-token head to the right key."""
    members = _formed(data)
    role = members.role.drop_vars("head")
    writes = role.isel(layer=0, drop=True).rename(head="writer") == PREVIOUS
    reads = role.isel(layer=1, drop=True).rename(head="reader") == INDUCTION
    joined = members.edges.sel(kind="K").where(writes & reads).max(["writer", "reader"])
    edges = members.edges.max(["writer", "kind", "reader"])
    return share_of(joined == np.maximum(edges, members.routes.sel(route="direct").max("writer")))


def overlap(data: xr.Dataset, kind: str) -> Sample:
    """Overlap of what the previous-token head writes with what the induction head reads, in z."""
    members = _formed(data)
    z = members.overlap_z.isel(writer=members.previous_head, reader=members.induction_head)
    return mean_of(z.sel(kind=kind))


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


def _formed(data: xr.Dataset) -> xr.Dataset:
    members = members_where(data, "has_induction")
    if (n := members.sizes["member"]) < 2:
        raise Absent(f"only {n} seeds have an induction head")
    return members


def _full(data: xr.Dataset) -> xr.Dataset:
    full = members_where(data, "full_alive")
    if not full.sizes["full_member"]:
        raise Absent("every full transformer has diverged")
    return full


def roles(data: xr.Dataset) -> Figure:
    """Attention of every head, its output, the readers of that output, and the loss without it."""
    members, data = _patched(data), members_where(data)
    figure, axes = new_figure(2, 2, height=4.9)
    looks, writes, reads, worth = axes.flat
    _looks(looks, data)
    raised = {name: (data[name] + 1) / 2 for name in ("copying", "copying_null")}
    _by_layer(writes, data.assign(raised), "copying")
    writes.set(title="what each head writes")
    writes.set(ylabel="share of what a token raises\nthat is the token itself")
    writes.set_ylim(bottom=0)
    _reads(reads, members)
    _by_layer(worth, members, "resampled")
    reference_line(worth, y=1)
    worth.set(title="what is left without it")
    worth.set(ylabel="lead of the right answer, share left\nwith one head from another text")
    writes.plot([], [], color=BLACK, linewidth=0.7, linestyle="--", label="by chance")
    handles = [*looks.get_legend_handles_labels()[0][:3], *writes.get_legend_handles_labels()[0]]
    labels = [name for name, _ in ROLES] + ["by chance"]
    n = f"every head of {data.sizes['member']} seeds; circles: layer 0, triangles: layer 1"
    figure.legend(handles, labels, loc="outside upper center", ncols=4, title=n, title_fontsize=7)
    letter_panels(axes.flat)
    return figure


def _looks(ax: Axes, data: xr.Dataset) -> None:
    """Where each head looks: at the token before, and at that which followed the last time."""
    role, back, matching = (
        data[name].transpose("layer", "member", "head").values
        for name in ("role", "previous", "prefix")
    )
    for i, (name, colour) in enumerate(ROLES):
        for layer, mark in enumerate("o^"):
            at = role[layer] == i
            label = name if (i, layer) in ((0, 0), (PREVIOUS, 0), (INDUCTION, 1)) else None
            how: dict[str, Any] = {"markersize": 3.5, "alpha": 0.7, "label": label}
            ax.plot(back[layer][at], matching[layer][at], mark, color=colour, **how)
    reference_line(ax, x=PREVIOUS_SCORE)
    reference_line(ax, y=PREFIX_SCORE)
    ax.set(title="where each head looks", xlabel="attention to the token before")
    ax.set(ylabel="attention to the token that\nfollowed the last time")
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))


def _reads(ax: Axes, members: xr.Dataset) -> None:
    """Overlaps of every pair by kind; those of a previous-token with an induction head apart."""
    writes = members.role.isel(layer=0).rename(head="writer") == PREVIOUS
    reads = members.role.isel(layer=1).rename(head="reader") == INDUCTION
    marked = (writes & reads).transpose("member", "writer", "reader").values
    z = members.overlap_z.transpose("kind", "member", "writer", "reader").values
    for i, values in enumerate(z):
        for shift, mask, colour in ((-0.2, ~marked, GREY), (0.2, marked, ORANGE)):
            places = i + shift + spread(len(values[mask]), 0.6 * HALF)
            ax.plot(places, values[mask], "o", color=colour, markersize=2, alpha=0.5)
    ax.set_xticks(range(3), ("queries", "keys", "values"))
    ax.set(title="who reads what layer 0 writes", xlabel="read by layer 1's", xlim=(-0.5, 2.5))
    ax.set(ylabel="overlap of subspaces, standard\ndeviations from random ones")
    reference_line(ax, y=0, style="dashed")
    ax.plot([], [], "o", color=ORANGE, markersize=3, label="previous-token to induction head")
    ax.plot([], [], "o", color=GREY, markersize=3, label="other pairs")
    ax.legend(loc="upper right")
    ax.set_ylim(top=1.45 * float(z.max()))


def patching(data: xr.Dataset) -> Figure:
    """Stream patches by place and position, and direct effects of layer 1 by source."""
    members = _patched(data)
    figure, axes = new_figure(2, 1, height=3.3, sharex=True, height_ratios=(1.3, 1))
    (heat,), (effect,) = axes
    shares = members.stream.mean("member").transpose("place", "position").values
    image = heat.imshow(shares, vmin=0, vmax=1, cmap=SEQUENTIAL, aspect="auto", origin="lower")
    for place, position in zip(*np.nonzero(shares > 0.1), strict=True):
        share = shares[place, position]
        how = {"ha": "center", "va": "center", "fontsize": 6}
        heat.text(position, place, f"{share:.2f}", color="white" if share < 0.7 else BLACK, **how)
    heat.set_yticks(range(len(members.place)), list(members.place.values))
    heat.set_title("clean stream put into the corrupted text, one place at a time")
    figure.colorbar(image, ax=heat, label="lead won back", shrink=0.9)
    sources = members.sources.isel(layer=1).sum("head").transpose("position", "member")
    mean_bars(effect, sources, ORANGE, width=0.7)
    n_ctx = len(sources)
    a, z = (int(i) for i in members.swapped.values)
    labels = {a: "a\nz", a + 1: "b\nb", z: "z\na", z + 1: "d\nd", n_ctx - 1: "a\na"}
    effect.set_xticks(range(n_ctx), [labels.get(i, "·\n·") for i in range(n_ctx)])
    effect.axhline(0, color=BLACK, linewidth=0.5)
    effect.set(xlabel="position: clean token above corrupted one", ylabel="logits")
    effect.set(title="direct effect of layer 1 on the lead of b over d, by source, clean text")
    letter_panels(axes.flat)
    seeds = members.sizes["member"]
    sample_note(figure, f"a: mean of {seeds} seeds with an induction head; b: with 95 % interval")
    return figure


def paths(data: xr.Dataset) -> Figure:
    """Routes from the first layer to the second, and direct effects on the lead."""
    members = _patched(data)
    figure, (axes,) = new_figure(1, 2, height=2.6, width_ratios=(1.3, 1))
    routes, direct = axes
    at = members.routes.transpose("member", "writer", "route").values
    previous = (members.role.isel(layer=0) == PREVIOUS).transpose("member", "head").values
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
    parts = list(members.component.values)
    tokens = members.direct.isel(component=parts.index("tokens")).values
    direct.plot(spread(len(tokens), HALF) - 1, tokens, "o", color=GREEN, markersize=3, alpha=0.7)
    heads = [name for name in parts if name.startswith("head")]
    each = members.resampled.transpose("member", "layer", "head")
    effect = members.direct.sel(component=heads).transpose("member", "component").values
    _by_layer(direct, members.assign(effect=each.copy(data=effect.reshape(each.shape))), "effect")
    direct.set(title="what each adds itself", ylabel="lead of the right answer, logits")
    direct.set_xticks((-1, 0, 1), ("token", *LAYERS))
    direct.axhline(0, color=BLACK, linewidth=0.5)
    letter_panels(axes)
    seeds = members.sizes["member"]
    note = f"a: mean and 95 % interval of {seeds} seeds with an induction head; b: every head"
    sample_note(figure, note)
    return figure


def _patched(data: xr.Dataset) -> xr.Dataset:
    """Seeds with an induction head, or all that stayed finite if there is none."""
    return members_where(members_where(data), "has_induction", otherwise="alive")


def _by_layer(ax: Axes, data: xr.Dataset, name: str) -> None:
    """One dot for each head, in the colour of its role, and the level of chance, if any."""
    values = data[name].transpose("layer", "member", "head").values
    role = data.role.transpose("layer", "member", "head").values
    for layer in range(values.shape[0]):
        x = np.repeat(layer + spread(values.shape[1], HALF)[:, None], values.shape[2], axis=1)
        for i, (_, colour) in enumerate(ROLES):
            at = role[layer] == i
            ax.plot(x[at], values[layer][at], "o", color=colour, markersize=2.5, alpha=0.7)
    if f"{name}_null" in data:
        reference_line(ax, y=float(data[f"{name}_null"].mean()), style="dashed")
    ax.set_xticks(range(len(LAYERS)), LAYERS)


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
