"""Two layers: previous-token heads feed induction heads, by K-composition.

composition   z-scores of all pairs of heads; the pair of previous-token and induction head is
              marked. Refuted if the mark is not the brightest of its K panel.
patterns      What both heads attend to on random tokens, repeated. Refuted without two stripes: one
              beside the diagonal, one a period away.
repeats       Every head of every seed on repeats: how often it looks most at the token after the
              earlier copy, how much of what it moves comes from there, what it adds to the right
              logit. Refuted if heads of layer 0 do any of it, or induction heads do not.
eigenvalues   Copying against matching by the circuit composed with the previous-token head, and
              with another one (crosses). Refuted if induction heads are not in the upper right
              corner, or lie where they lay before training.
terms         Loss by order and by layer, without Q- or K-composition in the second layer's scores,
              and what removing each head costs, with patterns kept or not.
"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.style import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    SEQUENTIAL,
    letter_panels,
    new_figure,
    styled,
)
from circuitax.records.estimate import mean_estimate
from circuitax.records.record import Record


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The five figures of the experiment."""
    data = record.data
    return {
        "composition": composition(data),
        "patterns": patterns(data),
        "repeats": repeats(data),
        "eigenvalues": eigenvalues(data),
        "terms": terms(data),
    }


def composition(data: xr.Dataset) -> Figure:
    """z of every pair in one seed, three kinds, and of the marked pair in all seeds."""
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
    _strip(axes[0, 3], _inducing(data))
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


def repeats(data: xr.Dataset) -> Figure:
    """Attention, value-weighted attention and logit effect at predicted repeats, a dot a head."""
    alive = data.isel(member=np.flatnonzero(data.alive.values))
    figure, axes = new_figure(1, 3, height=2.3)
    panels = {
        "top_is_match": ("looks most at the match", "share of repeats"),
        "stripes": ("value-weighted attention there", "share"),
        "raises": ("added to the right logit", "logits over the mean token"),
    }
    places = np.linspace(-0.25, 0.25, alive.sizes["member"])[:, None]
    for ax, (name, (title, label)) in zip(axes[0], panels.items(), strict=True):
        for layer, (colour, marker) in enumerate(((BLUE, "s"), (ORANGE, "o"))):
            values = alive[name].isel(layer=layer).transpose("member", "head").values
            at = np.broadcast_to(layer + places, values.shape)
            ax.plot(at.ravel(), values.ravel(), marker, color=colour, markersize=2.5, alpha=0.7)
        ax.axhline(0, color=GREY, linewidth=0.5)
        ax.set(title=title, ylabel=label, xticks=(0, 1), xticklabels=("layer 0", "layer 1"))
    for ax in axes[0, :2]:
        ax.set_ylim(-0.03, 1.03)
    letter_panels(axes[0])
    return figure


def eigenvalues(data: xr.Dataset) -> Figure:
    """Each head of layer 1: copying against matching with its seed's previous-token head."""
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


def terms(data: xr.Dataset) -> Figure:
    """Loss on repeats: by order, by layer of order 1, by composition, and without each head."""
    members = _inducing(data)
    figure, axes = new_figure(2, 2, height=4.6)
    (by_order, by_layer), (by_score, removed) = axes
    _bars(by_order, ["order 0", "≤ 1", "≤ 2"], members.order_loss.transpose("member", ...).values)
    labels = ["direct", "+ layer 0", "+ layer 1", "+ both", "all"]
    _bars(by_layer, labels, members.first_order_loss.transpose("member", ...).values)
    labels = ["all", "no Q", "no K", "neither"]
    _bars(by_score, labels, members.score_loss.transpose("member", ...).values)
    titles = ((by_order, "paths of order"), (by_layer, "order-1 terms of"),
              (by_score, "scores of layer 1: composition terms"))  # fmt: skip
    for ax, title in titles:
        ax.axhline(float(data.uniform), color=BLACK, linewidth=0.8, linestyle=":", label="uniform")
        ax.set(ylabel="loss on repeats, nats", title=title, ylim=(0, 1.2 * float(data.uniform)))
    by_layer.legend(loc="upper right")
    _removals(removed, members)
    letter_panels(axes.flat)
    return figure


def _removals(ax: Axes, members: xr.Dataset) -> None:
    picks = {
        "previous": {"layer": 0, "head": members.previous_head},
        "induction": {"layer": 1, "head": members.induction_head},
    }
    for i, (name, colour, label) in enumerate(
        (("ablated", BLUE, "patterns react"), ("ablated_preserving", ORANGE, "patterns kept"))
    ):
        cost = members[name] - members.loss
        estimates = [mean_estimate(cost.isel(pick).values) for pick in picks.values()]
        x = np.arange(len(picks)) + 0.36 * i - 0.18
        spread = [[e.value - e.low for e in estimates], [e.high - e.value for e in estimates]]
        ax.bar(x, [e.value for e in estimates], 0.34, yerr=_finite(spread), color=colour,
               label=label, error_kw={"linewidth": 0.8})  # fmt: skip
    ax.set(xticks=range(len(picks)), xticklabels=list(picks), title="head removed",
           ylabel="nats lost on repeats")  # fmt: skip
    ax.legend()


def _bars(ax: Axes, labels: list[str], rows: np.ndarray) -> None:
    estimates = [mean_estimate(column) for column in rows.T]
    spread = [[e.value - e.low for e in estimates], [e.high - e.value for e in estimates]]
    x = np.arange(len(labels))
    ax.bar(x, [e.value for e in estimates], 0.65, yerr=_finite(spread), color=BLUE,
           error_kw={"linewidth": 0.8})  # fmt: skip
    ax.set_xticks(x, labels, rotation=30, ha="right", rotation_mode="anchor")


def _strip(ax: Axes, members: xr.Dataset) -> None:
    """z of the marked pair, a dot a seed."""
    pair = {"writer": members.previous_head, "reader": members.induction_head}
    for i, kind in enumerate(members.kind.values):
        z = members.composition_z.sel(kind=kind).isel(pair).values
        ax.plot(np.full(len(z), i), z, "o", color=ORANGE, markersize=3, alpha=0.7)
    ax.axhline(0, color=GREY, linewidth=0.5)
    ax.set(xticks=range(3), xticklabels=list(members.kind.values), xlim=(-0.5, 2.5),
           title="marked pair, all seeds", ylabel="z")  # fmt: skip


def _token_ticks(ax: Axes, text: np.ndarray) -> None:
    places = np.arange(0, len(text), max(1, len(text) // 32))
    ax.set_xticks(places, text[places], fontsize=4, rotation=90)
    ax.set_yticks(places, text[places], fontsize=4)


def _example(data: xr.Dataset) -> int:
    """The seed with the largest prefix score, by rule."""
    return int(data.prefix.isel(layer=1).max("head").where(data.alive, -1).argmax("member"))


def _inducing(data: xr.Dataset) -> xr.Dataset:
    """Seeds with an induction head, or all that stayed finite if there is none."""
    chosen = data.has_induction if bool(data.has_induction.any()) else data.alive
    return data.isel(member=np.flatnonzero(chosen.values))


def _finite(spread: list[list[float]]) -> np.ndarray:
    values = np.array(spread)
    return np.where(np.isfinite(values), values, 0)
