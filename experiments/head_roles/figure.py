"""Who does what: by looking, by writing, by patching; and what each component is worth.

roles       Every head of the two-layer models, a dot each and a column a seed, with its null;
            the size of virtual heads is over that of their second head alone. Refuted if named
            heads lie on the null lines, others far from them; if the marked pairs overlap in
            Q or V and not in K; or if their virtual heads write as much as heads do.
patching    Lead of the right answer won back by patching the stream into the corrupted text, and
            where heads of layer 1 take their direct effect from. Refuted if the bright squares do
            not move one position on between the layers, or if the bar is not at b.
paths       What first-layer heads tell the second by Q, K, V; what is left of the lead with each
            head resampled; direct effects. Refuted if Q or V carry what K does.
components  The full transformer on real text: direct effects, nats lost, alignment with the stream,
            norms held constant. Refuted if constant norms cost nothing, if no component is worth
            a nat, or if all are aligned as before training.
"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_bars, reference_line, spread
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE, SEQUENTIAL
from circuitax.figures.style import letter_panels, new_figure, styled
from circuitax.records.head_roles import INDUCTION, PREVIOUS
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.head_roles.figure_components import components

ROLES = (("other head", GREY), ("previous-token head", BLUE), ("induction head", ORANGE))
LAYERS = ("layer 0", "layer 1")
HALF = 0.28  # how far dots spread to either side


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The four figures of the experiment; those without a member that lived are left out."""
    alive, full = members_where(record.data), members_where(record.data, "full_alive")
    # Patches are drawn of the seeds with an induction head, or of all if there is none.
    members = members_where(alive, "has_induction", otherwise="alive")
    figures = {}
    if members.sizes["member"]:
        figures["roles"] = roles(alive, members)
        figures |= {"patching": patching(members), "paths": paths(members)}
    if full.sizes["full_member"]:
        figures["components"] = components(full)
    return figures


def roles(data: xr.Dataset, members: xr.Dataset) -> Figure:
    """Scores of every head, by layer, with nulls; overlaps and virtual heads of pairs."""
    figure, axes = new_figure(3, 3, height=5.8)
    panels = (
        ("previous", "looks at the previous token", "attention"),
        ("duplicate", "looks at earlier copies", "attention"),
        ("prefix", "looks at what followed them", "attention"),
        ("moves_name", "moves one of two candidates", "attention × copies"),
        ("copying", "raises what it reads", "copying score"),
        ("own", "reads at its own position", "share of its logits"),
        ("alignment", "writes against the stream", "mean cosine"),
    )
    for ax, (name, title, label) in zip(axes.flat, panels, strict=False):
        _by_layer(ax, data, name)
        ax.set(title=title, ylabel=label)
        if label.startswith("attention"):
            ax.set_ylim(-0.03, 1.03)
    overlaps, virtual = axes[2, 1:]
    writes = members.role.isel(layer=0).rename(head="writer") == PREVIOUS
    reads = members.role.isel(layer=1).rename(head="reader") == INDUCTION
    z = members.overlap_z.transpose("kind", "member", "writer", "reader")
    marked = (writes & reads).transpose("member", "writer", "reader").values
    for i, values in enumerate(z.values):
        _pairs(overlaps, i, values, marked)
    overlaps.set_xticks(range(3), list(members.kind.values))
    overlaps.set(ylabel="z", title="writes of 0 in reads of 1", xlim=(-0.5, 2.5))
    reference_line(overlaps, y=0, style="dashed")
    _pairs(virtual, 0, members.virtual.transpose("member", "writer", "reader").values, marked)
    virtual.set_xticks((-0.2, 0.2), ("other pairs", "previous,\ninduction"))
    virtual.set(title="virtual head over head alone", ylabel="ratio of sizes")
    virtual.set(xlim=(-0.5, 0.5), ylim=(0, 1.05))
    reference_line(virtual, y=1)
    for name, colour in ROLES:
        axes[0, 1].plot([], [], "o", color=colour, markersize=3, label=name)
    axes[0, 1].plot([], [], color=BLACK, linewidth=0.7, linestyle="--", label="by chance")
    axes[0, 1].legend(loc="upper left")
    letter_panels(axes.flat)
    return figure


def patching(members: xr.Dataset) -> Figure:
    """Stream patches by place and position, and direct effects of layer 1 by source."""
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
    return figure


def paths(members: xr.Dataset) -> Figure:
    """Routes from the first layer to the second, resampled heads, direct effects."""
    figure, (axes,) = new_figure(1, 3, height=2.6, width_ratios=(1.3, 1, 1))
    routes, resampled, direct = axes
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
    routes.set_xticks(range(len(members.route)), list(members.route.values))
    routes.axhline(0, color=BLACK, linewidth=0.5)
    routes.set(title="what layer 0 tells, by route", ylabel="lead won back", xlabel="readers of it")
    routes.set_ylim(top=1.45)
    routes.legend(loc="upper left")
    _by_layer(resampled, members, "resampled")
    reference_line(resampled, y=1)
    resampled.set(title="one head resampled", ylabel="lead that is left")
    names = list(members.component.values)
    tokens = members.direct.isel(component=names.index("tokens")).values
    direct.plot(spread(len(tokens), HALF) - 1, tokens, "o", color=GREEN, markersize=3, alpha=0.7)
    heads = [name for name in names if name.startswith("head")]
    each = members.resampled.transpose("member", "layer", "head")
    effect = members.direct.sel(component=heads).transpose("member", "component").values
    _by_layer(direct, members.assign(effect=each.copy(data=effect.reshape(each.shape))), "effect")
    direct.set(title="direct effect on the lead", ylabel="logits")
    direct.set_xticks((-1, 0, 1), ("tokens", *LAYERS))
    direct.axhline(0, color=BLACK, linewidth=0.5)
    letter_panels(axes)
    return figure


def _by_layer(ax: Axes, data: xr.Dataset, name: str) -> None:
    """A dot a head, coloured by its role, and the null of each layer where there is one."""
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
    """A dot a pair of heads; the marked ones, a previous-token and an induction head, apart."""
    for shift, mask, colour in ((-0.2, ~marked, GREY), (0.2, marked, ORANGE)):
        dots = values[mask]
        places = x + shift + spread(len(dots), 0.6 * HALF)
        ax.plot(places, dots, "o", color=colour, markersize=2, alpha=0.5)
