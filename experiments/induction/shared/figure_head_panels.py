"""Figures that experiments on two-layer models share: heads that compose, copy, match, repeat."""

import string
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec

from circuitax.figures.marks import spread, zero_line
from circuitax.figures.palette import (
    BLACK,
    DIVERGING,
    GREY,
    KIND_COLOURS,
    LAYER_COLOURS,
    SEQUENTIAL,
)
from circuitax.figures.style import PAGE, letter_panels, new_figure, sample_note
from circuitax.records.record import members_where
from experiments.induction.shared.head_roles import example_member

REPEATS = {
    "top_is_match": ("looks most at the match", "share of repeats"),
    "stripes": ("value-weighted attention there", "share"),
    "raises": ("added to the right logit", "logits over the mean token"),
}

LETTERS = (
    string.ascii_uppercase + string.ascii_lowercase + string.digits + "αβγδεζηθικλμνξπρστυφχψω"
)
# Above this in both, copying and matching are the corner of induction heads.
CORNER = 0.9


def composition(data: xr.Dataset) -> Figure:
    """Composition z of every pair in one seed, as lines from head to head, and of one in all."""
    member = example_member(data)
    one = data.isel(member=member)
    figure, axes = new_figure(1, 4, height=2.4, width_ratios=(1, 1, 1, 1.25))
    top = float(np.abs(one.composition_z).max())
    scale = ScalarMappable(Normalize(-top, top), DIVERGING)
    for ax, kind in zip(axes[0], data.kind.values, strict=False):
        z = one.composition_z.sel(kind=kind).transpose("writer", "reader").values
        # The strongest lines lie on top.
        for writer, reader in sorted(np.ndindex(z.shape), key=lambda pair: abs(z[pair])):
            width, colour = 5 * abs(z[writer, reader]) / top, scale.to_rgba(z[writer, reader])
            ax.plot([writer, reader], [0, 1], color=colour, linewidth=width, zorder=1)
        for layer, (heads, marked) in enumerate(zip(z.shape, _circuit(one), strict=True)):
            for head in range(heads):
                ring: dict[str, Any] = {"edgecolor": LAYER_COLOURS[layer], "facecolor": "white"}
                ring |= {"linewidth": 2.2 if head == marked else 0.8, "boxstyle": "circle,pad=0.25"}
                middle: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 6}
                ax.text(head, layer, f"{layer}.{head}", bbox=ring, **middle)
        ax.set(title=f"{kind}-composition", ylim=(-0.3, 1.3), xlim=(-0.5, max(z.shape) - 0.5))
        ax.set_axis_off()
    label = "z against the exact null"
    figure.colorbar(scale, ax=axes[0, :3].tolist(), label=label, shrink=0.6, location="bottom")
    shown = members_where(data, "has_induction", otherwise="alive")
    _strip(axes[0, 3], shown)
    letter_panels(axes[0])
    seeds = shown.sizes["member"]
    circuit = "thick rings: the previous-token head and the induction head"
    sample_note(figure, f"a to c: one of {seeds} seeds, {circuit}; d: all seeds")
    return figure


def _circuit(one: xr.Dataset) -> tuple[int, int]:
    """The previous-token head of layer 0 and the induction head of layer 1."""
    return int(one.previous_head), int(one.induction_head)


def patterns(data: xr.Dataset) -> Figure:
    """Attention of two heads on one text of repeated random tokens."""
    one = data.isel(member=example_member(data))
    text = one.text.values
    repeat = int(np.argmax(text[1:] == text[0])) + 1
    first, second = _circuit(one)
    named = {"previous-token head": (0, first), "induction head": (1, second)}
    order = list(dict.fromkeys(text.tolist()))
    letters = [LETTERS[order.index(token)] for token in text.tolist()]
    figure = Figure(figsize=(PAGE, 4.4))
    grid = figure.add_gridspec(2, 2, height_ratios=(3.3, 0.9))
    axes = [figure.add_subplot(grid[0, column]) for column in range(2)]
    for ax, (name, (layer, head)) in zip(axes, named.items(), strict=True):
        A = one.pattern.isel(layer=layer, head=head)
        image = ax.imshow(A, vmin=0, vmax=1, cmap=SEQUENTIAL)
        for start in range(repeat, len(text), repeat):
            ax.axhline(start - 0.5, color="white", linewidth=0.6)
            ax.axvline(start - 0.5, color="white", linewidth=0.6)
        ax.set(title=f"{name} {layer}.{head}", xlabel="source: each letter is a random token")
        _token_ticks(ax, letters)
    axes[0].set_ylabel("destination")
    figure.colorbar(image, ax=axes, label="attention", shrink=0.8)
    letter_panels([*axes, *_thumbnails(figure, grid[1, :], one)])
    return figure


def _thumbnails(figure: Figure, place: SubplotSpec, one: xr.Dataset) -> list[Axes]:
    """The patterns of all heads, small, in a row; those of the circuit are framed."""
    cells = list(np.ndindex(one.sizes["layer"], one.sizes["head"]))
    grid = place.subgridspec(1, len(cells))
    row = [figure.add_subplot(grid[i]) for i in range(len(cells))]
    for ax, (layer, head) in zip(row, cells, strict=True):
        ax.imshow(one.pattern.isel(layer=layer, head=head), vmin=0, vmax=1, cmap=SEQUENTIAL)
        ax.set_title(f"head {layer}.{head}", fontsize=6, pad=2)
        ax.set(xticks=[], yticks=[])
        colour = LAYER_COLOURS[layer] if head == _circuit(one)[layer] else "white"
        ax.spines[:].set(visible=True, color=colour, linewidth=2)
    return row[:1]


def eigenvalues(data: xr.Dataset) -> Figure:
    """Copying of each head of layer 1 against its matching with its seed's previous-token head."""
    alive = members_where(data)
    figure, axes = new_figure(1, 2, height=2.8, sharey=True, sharex=True)
    for ax, suffix, title in zip(
        axes[0], ("_at_init", ""), ("before training", "after"), strict=True
    ):
        copying = alive[f"copying{suffix}"].isel(layer=1)
        matching = alive[f"matching{suffix}"].isel(writer=alive.previous_head)
        strength = alive.prefix.isel(layer=1)
        if not suffix:
            least = alive.previous.isel(layer=0).argmin("head")
            other = alive.matching.isel(writer=least)
            label = "with the head that looks\nleast at the previous token"
            crosses = other.values.ravel(), copying.values.ravel()
            ax.plot(*crosses, "x", color=GREY, markersize=4, label=label)
            ax.legend(loc="lower left", frameon=True, framealpha=1, edgecolor="none")
        dots = ax.scatter(
            matching,
            copying,
            c=strength,
            vmin=0,
            vmax=1,
            cmap=SEQUENTIAL,
            s=16,
            edgecolors=BLACK,
            linewidths=0.3,
            zorder=3,  # above the crosses
        )
        # Dots of the corner cover each other: their number is said.
        corner = (matching.values > CORNER) & (copying.values > CORNER)
        zero_line(ax)
        zero_line(ax, vertical=True)
        ax.set_title(f"{title}: {corner.sum()} of {corner.size} dots in the corner")
        ax.set_xlabel("same-matching, composed QK")
        ax.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))
    axes[0, 0].set_ylabel("copying, OV")
    figure.colorbar(dots, ax=axes[0].tolist(), label="prefix score after training", shrink=0.9)
    letter_panels(axes[0])
    seeds = alive.sizes["member"]
    sample_note(figure, f"dots: heads of layer 1 of {seeds} seeds; corner: both above {CORNER}")
    return figure


def repeats_of(columns: Mapping[str, xr.Dataset]) -> Figure:
    """Attention, value-weighted attention and logit effect at repeats, one dot for each head.

    ``columns`` are what stands above each place of the x axis, by its label, perhaps some layers.
    """
    figure, axes = new_figure(1, 3, height=2.4)
    for ax, (name, (title, label)) in zip(axes[0], REPEATS.items(), strict=True):
        for place, part in enumerate(columns.values()):
            for layer in part.layer.values:
                values = part[name].sel(layer=layer).transpose("member", "head").values
                at = np.broadcast_to(place + spread(len(values), 0.25)[:, None], values.shape)
                colour, marker = LAYER_COLOURS[layer], "so"[layer]
                ax.plot(at.ravel(), values.ravel(), marker, color=colour, markersize=3, alpha=0.7)
        zero_line(ax)
        ax.set(title=title, ylabel=label, xlim=(-0.5, len(columns) - 0.5))
        ax.set_xticks(range(len(columns)), list(columns))
    for ax in axes[0, :2]:
        ax.set_ylim(-0.03, 1.03)
    for layer, (colour, marker) in enumerate(zip(LAYER_COLOURS, "so", strict=False)):
        axes[0, 2].plot([], [], marker, color=colour, markersize=3, label=f"layer {layer}")
    axes[0, 2].legend()
    letter_panels(axes[0])
    seeds = next(iter(columns.values())).sizes["member"]
    sample_note(figure, f"marks: heads; in a column those of one of {seeds} seeds")
    return figure


def _token_ticks(ax: Axes, letters: list[str]) -> None:
    places = range(0, len(letters), max(1, len(letters) // 24))
    shown = [letters[place] for place in places]
    ax.set_xticks(places, shown, fontsize=6)
    ax.set_yticks(places, shown, fontsize=6)
    ax.tick_params(length=1.5, pad=1)


def _strip(ax: Axes, members: xr.Dataset) -> None:
    """z of the marked pair, one dot for each seed."""
    pair = {"writer": members.previous_head, "reader": members.induction_head}
    for i, (kind, colour) in enumerate(zip(members.kind.values, KIND_COLOURS, strict=True)):
        z = members.composition_z.sel(kind=kind).isel(pair).values
        ax.plot(i + spread(len(z)), z, "o", color=colour, markersize=3, alpha=0.7)
    zero_line(ax)
    ax.set_xticks(range(3), list(members.kind.values))
    ax.set(xlim=(-0.5, 2.5), title="marked pair, all seeds")
    ax.set_ylabel("z against the exact null")
