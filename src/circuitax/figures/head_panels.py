"""Figures that experiments on two-layer models share: composition, patterns, eigenvalues."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.style import (
    BLACK,
    GREY,
    ORANGE,
    SEQUENTIAL,
    letter_panels,
    new_figure,
)


def composition(data: xr.Dataset) -> Figure:
    """Composition z of every pair in one seed, by kind, and of one marked pair in all seeds."""
    member = _example(data)
    one = data.isel(member=member)
    figure, axes = new_figure(1, 4, height=2.1, width_ratios=(1, 1, 1, 1.25))
    top = float(np.abs(one.composition_z).max())
    for ax, kind in zip(axes[0], data.kind.values, strict=False):
        z = one.composition_z.sel(kind=kind).transpose("reader", "writer")
        image = ax.imshow(z, vmin=-top, vmax=top, cmap="RdBu_r", origin="lower")
        ax.plot(int(one.previous_head), int(one.induction_head), "s", color=BLACK, fillstyle="none",
                markersize=11)  # fmt: skip
        ax.set(title=f"{kind}-composition", xlabel="head of layer 0",
               xticks=range(z.shape[1]), yticks=range(z.shape[0]))  # fmt: skip
    axes[0, 0].set_ylabel("head of layer 1")
    figure.colorbar(image, ax=axes[0, :3].tolist(), label="z against the exact null", shrink=0.8)
    _strip(axes[0, 3], inducing(data))
    letter_panels(axes[0])
    return figure


def patterns(data: xr.Dataset) -> Figure:
    """Attention of the two heads on one text of repeated random tokens."""
    one = data.isel(member=_example(data))
    text = one.text.values
    repeat = int(np.argmax(text[1:] == text[0])) + 1
    figure, axes = new_figure(1, 2, height=3.3)
    heads = {
        "previous-token head": (0, int(one.previous_head)),
        "induction head": (1, int(one.induction_head)),
    }
    for ax, (name, (layer, head)) in zip(axes[0], heads.items(), strict=True):
        A = one.pattern.isel(layer=layer, head=head).values
        image = ax.imshow(A, vmin=0, vmax=1, cmap=SEQUENTIAL)
        for start in range(repeat, len(text), repeat):
            ax.axhline(start - 0.5, color="white", linewidth=0.6)
            ax.axvline(start - 0.5, color="white", linewidth=0.6)
        ax.set(title=f"{name} {layer}.{head}", xlabel="source token")
        _token_ticks(ax, text)
    axes[0, 0].set_ylabel("destination token")
    figure.colorbar(image, ax=axes[0].tolist(), label="attention", shrink=0.8)
    letter_panels(axes[0])
    return figure


def eigenvalues(data: xr.Dataset) -> Figure:
    """Copying of each head of layer 1 against its matching with its seed's previous-token head."""
    alive = data.isel(member=np.flatnonzero(data.alive.values))
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
            ax.plot(other.values.ravel(), copying.values.ravel(), "x", color=GREY, markersize=4,
                    label="with the head that looks\nleast at the previous token")  # fmt: skip
            ax.legend(loc="lower left")
        dots = ax.scatter(matching, copying, c=strength, vmin=0, vmax=1, cmap=SEQUENTIAL, s=16,
                          edgecolors=BLACK, linewidths=0.3)  # fmt: skip
        ax.axhline(0, color=GREY, linewidth=0.5)
        ax.axvline(0, color=GREY, linewidth=0.5)
        ax.set(title=title, xlim=(-1.05, 1.05), ylim=(-1.05, 1.05),
               xlabel="same-matching, composed QK")  # fmt: skip
    axes[0, 0].set_ylabel("copying, OV")
    figure.colorbar(dots, ax=axes[0].tolist(), label="prefix score after training", shrink=0.9)
    letter_panels(axes[0])
    return figure


def _token_ticks(ax: Axes, text: np.ndarray) -> None:
    places = np.arange(0, len(text), max(1, len(text) // 32))
    ax.set_xticks(places, text[places], fontsize=4, rotation=90)
    ax.set_yticks(places, text[places], fontsize=4)


def _example(data: xr.Dataset) -> int:
    """The seed shown as an example: the one with the largest prefix score."""
    return int(data.prefix.isel(layer=1).max("head").where(data.alive, -1).argmax("member"))


def _strip(ax: Axes, members: xr.Dataset) -> None:
    """z of the marked pair, one dot for each seed."""
    pair = {"writer": members.previous_head, "reader": members.induction_head}
    for i, kind in enumerate(members.kind.values):
        z = members.composition_z.sel(kind=kind).isel(pair).values
        ax.plot(np.full(len(z), i), z, "o", color=ORANGE, markersize=3, alpha=0.7)
    ax.axhline(0, color=GREY, linewidth=0.5)
    ax.set(xticks=range(3), xticklabels=list(members.kind.values), xlim=(-0.5, 2.5),
           title="marked pair, all seeds", ylabel="z")  # fmt: skip


def inducing(data: xr.Dataset) -> xr.Dataset:
    """Seeds with an induction head, or all that stayed finite if there is none."""
    chosen = data.has_induction if bool(data.has_induction.any()) else data.alive
    return data.isel(member=np.flatnonzero(chosen.values))
