"""Roles of heads: by attention, by writing, by patching; and the effect of each component."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_bars, reference_line, spread
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE, SEQUENTIAL
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.induction.head_roles.figure_components import components
from experiments.induction.shared.head_roles import (
    INDUCTION,
    PREFIX_SCORE,
    PREVIOUS,
    PREVIOUS_SCORE,
)

ROLES = (("other head", GREY), ("previous-token head", BLUE), ("induction head", ORANGE))
LAYERS = ("layer 0", "layer 1")
HALF = 0.28  # how far dots spread to either side


def _has_members(record: Record) -> bool:
    return bool(record.data.alive.any())


def _patched(record: Record) -> xr.Dataset:
    """Seeds with an induction head, or all that stayed finite if there is none."""
    return members_where(members_where(record.data), "has_induction", otherwise="alive")


def roles(record: Record) -> Figure:
    """Attention of every head, its output, the readers of that output, and the loss without it."""
    data, members = members_where(record.data), _patched(record)
    figure, axes = new_figure(2, 2, height=4.9)
    looks, writes, reads, worth = axes.flat
    role = data.role.transpose("layer", "member", "head").values
    for i, (name, colour) in enumerate(ROLES):
        for layer, mark in enumerate("o^"):
            back, matching = (
                data[score].transpose("layer", "member", "head").values[layer][role[layer] == i]
                for score in ("previous", "prefix")
            )
            label = name if (i, layer) in ((0, 0), (PREVIOUS, 0), (INDUCTION, 1)) else None
            looks.plot(back, matching, mark, color=colour, markersize=3.5, alpha=0.7, label=label)
    reference_line(looks, x=PREVIOUS_SCORE)
    reference_line(looks, y=PREFIX_SCORE)
    looks.set(
        xlabel="attention to the token before",
        ylabel="attention to the token that\nfollowed the last time",
        title="where each head looks",
        xlim=(-0.03, 1.03),
        ylim=(-0.03, 1.03),
    )
    shares = data.assign(
        own_raise=(data.copying + 1) / 2, own_raise_null=(data.copying_null + 1) / 2
    )
    _by_layer(writes, shares, "own_raise")
    writes.set(
        title="what each head writes",
        ylabel="share of what a token raises\nthat is the token itself",
    )
    writes.set_ylim(bottom=0)
    z, marked = _overlaps(members)
    for i, values in enumerate(z):
        _pairs(reads, i, values, marked)
    reads.set_xticks(range(3), ("queries", "keys", "values"))
    reads.set(
        title="who reads what layer 0 writes",
        ylabel="overlap of subspaces, standard\ndeviations from random ones",
        xlabel="read by layer 1's",
        xlim=(-0.5, 2.5),
    )
    reference_line(reads, y=0, style="dashed")
    reads.plot([], [], "o", color=ORANGE, markersize=3, label="previous-token to induction head")
    reads.plot([], [], "o", color=GREY, markersize=3, label="other pairs")
    reads.legend(loc="upper right")
    reads.set_ylim(top=1.45 * float(z.max()))
    _by_layer(worth, members, "resampled")
    reference_line(worth, y=1)
    worth.set(
        title="what is left without it",
        ylabel="lead of the right answer, share left\nwith one head from another text",
    )
    writes.plot([], [], color=BLACK, linewidth=0.7, linestyle="--", label="by chance")
    handles = [*looks.get_legend_handles_labels()[0][:3], *writes.get_legend_handles_labels()[0]]
    labels = [name for name, _ in ROLES] + ["by chance"]
    n = f"every head of {data.sizes['member']} seeds; circles: layer 0, triangles: layer 1"
    figure.legend(handles, labels, loc="outside upper center", ncols=4, title=n, title_fontsize=7)
    letter_panels(axes.flat)
    return figure


def readings(record: Record) -> Figure:
    """Five more scores of every head, each with its chance level."""
    data = members_where(record.data)
    figure, axes = new_figure(2, 3, height=3.9)
    panels = (
        ("duplicate", "looks at earlier copies\nof the present token", "share of attention"),
        ("moves_name", "moves one of two candidates\nto the answer", "attention × copied"),
        ("own", "what it adds comes\nfrom its own position", "share of its logits"),
        ("alignment", "writes along the stream,\nor against it", "mean cosine"),
    )
    for ax, (name, title, label) in zip(axes.flat, panels, strict=False):
        _by_layer(ax, data, name)
        ax.set(title=title, ylabel=label)
        if name in ("duplicate", "moves_name"):
            ax.set_ylim(-0.03, 1.03)
    virtual, key = axes[1, 1:]
    _, marked = _overlaps(data)
    _pairs(virtual, 0, data.virtual.transpose("member", "writer", "reader").values, marked)
    virtual.set_xticks((-0.2, 0.2), ("other\npairs", "previous-token\nto induction"))
    virtual.set(title="two heads one after the other,\nas a virtual head")
    virtual.set(ylabel="size over that of\nthe second alone", xlim=(-0.5, 0.5), ylim=(0, 1.05))
    for name, colour in ROLES:
        key.plot([], [], "o", color=colour, markersize=3, label=name)
    key.plot([], [], color=BLACK, linewidth=0.7, linestyle="--", label="by chance")
    key.legend(loc="center", title=f"dots: heads; columns: seeds,\nn = {data.sizes['member']}")
    key.set_axis_off()
    letter_panels([*axes[0], axes[1, 0], virtual])
    return figure


def patching(record: Record) -> Figure:
    """Stream patches by place and position, and direct effects of layer 1 by source."""
    members = _patched(record)
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
    effect.set(
        xlabel="position: clean token above corrupted one",
        ylabel="logits",
        title="direct effect of layer 1 on the lead of b over d, by source, clean text",
    )
    letter_panels(axes.flat)
    seeds = members.sizes["member"]
    sample_note(figure, f"a: mean of {seeds} seeds with an induction head; b: with 95 % interval")
    return figure


def paths(record: Record) -> Figure:
    """Routes from the first layer to the second, and direct effects on the lead."""
    members = _patched(record)
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
    routes.set(
        title="what layer 0 tells, by who reads it",
        ylabel="lead of the right answer,\nshare won back",
        xlabel="put back into layer 1's",
    )
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
    sample_note(
        figure, f"a: mean and 95 % interval of {seeds} seeds with an induction head; b: every head"
    )
    return figure


def _overlaps(members: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Overlaps of every pair by kind; which pairs join a previous-token to an induction head."""
    writes = members.role.isel(layer=0).rename(head="writer") == PREVIOUS
    reads = members.role.isel(layer=1).rename(head="reader") == INDUCTION
    z = members.overlap_z.transpose("kind", "member", "writer", "reader").values
    return z, (writes & reads).transpose("member", "writer", "reader").values


def _by_layer(ax: Axes, data: xr.Dataset, name: str) -> None:
    """One dot for each head, in the colour of its role, and the null of each layer, if any."""
    values = data[name].transpose("layer", "member", "head").values
    role = data.role.transpose("layer", "member", "head").values
    for layer in range(values.shape[0]):
        x = np.repeat(layer + spread(values.shape[1], HALF)[:, None], values.shape[2], axis=1)
        for i, (_, colour) in enumerate(ROLES):
            at = role[layer] == i
            ax.plot(x[at], values[layer][at], "o", color=colour, markersize=2.5, alpha=0.7)
        if f"{name}_null" in data:
            null = data[f"{name}_null"]
            null = null.isel(layer=layer) if "layer" in null.dims else null
            ends, height = (layer - 0.4, layer + 0.4), float(null.mean())
            ax.plot(ends, [height] * 2, color=BLACK, linewidth=0.7, linestyle="--")
    ax.set_xticks(range(len(LAYERS)), LAYERS)


def _pairs(ax: Axes, x: float, values: np.ndarray, marked: np.ndarray) -> None:
    """One dot for each pair of heads; the marked pairs, previous-token to induction, apart."""
    for shift, mask, colour in ((-0.2, ~marked, GREY), (0.2, marked, ORANGE)):
        dots = values[mask]
        places = x + shift + spread(len(dots), 0.6 * HALF)
        ax.plot(places, dots, "o", color=colour, markersize=2, alpha=0.5)


FIGURES = (
    FigureSpec(
        "roles",
        roles,
        message="Heads of layer 0 attend to the previous token; heads of layer 1 attend to the "
        "token after the last occurrence, through keys written by layer 0.",
        caption="A dot is a head; all seeds together.",
        refuted="Refuted if the coloured dots of a lie among the grey ones, if K does not stand "
        "out in c, or if the heads that have a role can be exchanged at no cost.",
        where=_has_members,
    ),
    FigureSpec(
        "readings",
        readings,
        message="Five more scores separate the kinds of heads, but none identifies both kinds on "
        "its own.",
        refuted="Refuted if blue or orange dots lie on the dashed lines of chance in all of them.",
        where=_has_members,
    ),
    FigureSpec(
        "patching",
        patching,
        message="The information that decides the answer moves one position on in layer 0, and to "
        "the last position in layer 1.",
        caption="Lead of the right answer won back by patching the stream into the corrupted "
        "text, and where heads of layer 1 take their direct effect from.",
        refuted="Refuted if the bright squares do not move one position on between the layers, or "
        "if the bar is not at b.",
        where=_has_members,
    ),
    FigureSpec(
        "paths",
        paths,
        message="Layer 0 reaches layer 1 through its keys alone; only heads of layer 1 have a "
        "direct effect on the lead.",
        refuted="Refuted if Q or V have an effect as large as K's.",
        where=_has_members,
    ),
    FigureSpec(
        "components",
        components,
        message="In the full transformer MLPs lower the loss most, and single heads by a fraction "
        "of a nat.",
        caption="On real text: direct effects, nats lost, alignment with the stream, norms held "
        "constant; heads in the order of their attention to the previous token.",
        refuted="Refuted if constant norms cost nothing, if no component is worth a nat, or if "
        "all are aligned as before training.",
        where=lambda record: bool(record.data.full_alive.any()),
    ),
)
