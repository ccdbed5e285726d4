"""Bilinear MLPs beside others: loss, eigenvectors, and pairs of tokens that come true."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.display.viewers import visible
from circuitax.figures.marks import mean_curve, reference_line, seed_column, zero_line
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE, PINK
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import headline, letter_panels, new_figure, sample_note
from circuitax.records.record import Record
from experiments.one_layer.bilinear.measures import (
    ABOVE,
    FEWEST,
    estimates,
    gap,
    kept_share,
    measure,
)

LOOKS = {"bilinear": (ORANGE, "-"), "gelu": (BLUE, "--"), "linear": (GREY, ":")}
NAMES = {"bilinear": "bilinear", "gelu": "GELU", "linear": "linear"}
DEPTHS = ((1, ORANGE, "one layer"), (2, GREEN, "two layers"))
PARTS = ("the token\nby itself", "token and\nheads", "heads by\nthemselves")
SHOWN = 14  # pairs of tokens


def losses(record: Record) -> Figure:
    """Held-out loss along training, gaps between kinds of MLPs, and the price of each part."""
    data = record.data
    figure, axes = new_figure(1, 3, height=2.6, width_ratios=[1.2, 1, 1])
    training, gaps, parts = axes[0]
    deepest = int(data.depth.max())
    for kind, (colour, style) in LOOKS.items():
        rows = data.loss.sel(model=f"{kind}-{deepest}").transpose("step", "seed").values
        mean_curve(
            training, data.step, rows, colour, label=NAMES[kind], linestyle=style, opacity=0.2
        )
    training.set(xlabel="step", ylabel="held-out loss, nats a token")
    training.set_title(f"{deepest} layers")
    training.legend(fontsize=6)
    places: list[tuple[float, str]] = []
    for depth in map(int, data.depth.values):
        for kind in ("bilinear", "linear"):
            place, rows = len(places) + 0.4 * (depth - 1), gap(data, kind, depth)
            if rows.size:
                seed_column(gaps, place, rows, LOOKS[kind][0], form="+.3f", size=5)
            places.append((place, f"{NAMES[kind]}\n{depth}"))
    zero_line(gaps)
    gaps.set_xticks([x for x, _ in places], [name for _, name in places])
    gaps.tick_params(axis="x", labelsize=6)
    gaps.set(xlabel="layers", ylabel="loss less GELU's, nats", title="Equal parameters")
    gaps.margins(x=0.15, y=0.15)
    price = data.part_loss.values - data.part_loss.values[:, :1]
    for place, rows in enumerate(price.T[1:]):
        seed_column(parts, place, rows, PINK, form=".2f", size=5)
    zero_line(parts)
    parts.set_xticks(range(len(PARTS)), PARTS)
    parts.tick_params(axis="x", labelsize=6)
    parts.set(ylabel="loss without it, nats more", title="Parts of one bilinear layer")
    parts.margins(x=0.2, y=0.15)
    letter_panels(axes[0])
    found = measure(record).estimates
    said = [
        f"{abs(one.value):.3f} {'more' if one.value > 0 else 'less'} than GELU ones with {words}"
        for depth, _, words in DEPTHS
        if (one := found.get(f"bilinear-gap-{depth}"))
    ]
    headline(figure, f"Bilinear MLPs of equal parameters lose, in nats, {' and '.join(said)}")
    sample_note(figure, f"dots: {data.sizes['seed']} seeds; mean and 95 % t interval")
    return figure


def eigenvectors(record: Record) -> Figure:
    """Spectra, correlations on text, and kept loss, against the number of eigenvectors."""
    data = record.data
    figure, axes = new_figure(1, 3, height=2.5)
    spectrum, told, kept = axes[0]
    for name, colour, label in (
        ("energy", ORANGE, "trained"),
        ("energy_at_init", GREY, "at the start"),
    ):
        rows = np.cumsum(data[name].values[0], axis=-1).mean(axis=1).T
        mean_curve(spectrum, np.arange(1, len(rows) + 1), rows, colour, label=label)
    spectrum.plot(
        [2], [data.energy_permuted.values.mean()], "x", color=BLUE, label="gates permuted"
    )
    spectrum.set(xscale="log", ylim=(0, 1.03), xlabel="largest eigenvectors")
    spectrum.set(ylabel="share of squared eigenvalues", title="One layer")
    spectrum.legend(fontsize=6, loc="lower right")
    for i, (colour, style) in enumerate(((ORANGE, "-"), (GREEN, "--"), (GREEN, "-"))):
        if i >= data.sizes["mlp"]:
            break
        for name, shade in (("correlation", colour), ("correlation_at_init", GREY)):
            rows = (data[name].values[i] > ABOVE).mean(axis=1).T
            own = name == "correlation"
            mean_curve(
                told,
                data.kept,
                rows,
                shade,
                linestyle=style if own else ":",
                opacity=0.2,
                label=f"layer {data.mlp.values[i]}" if own else "at the start" if not i else None,
            )
    told.set(xscale="log", ylim=(0, 1.03), xlabel="eigenvectors")
    told.set(ylabel=f"directions told above {ABOVE}", title="On held-out text")
    told.legend(fontsize=6, loc="lower right", handlelength=1.3, bbox_to_anchor=(1.04, 0.16))
    _kept(kept, data)
    for ax in axes[0]:
        ticks = [1, 2, 4, 8, 16, 32, 64]
        shown = [tick for tick in ticks if tick <= record.notes["d_model"]]
        ax.set_xticks(shown, [str(tick) for tick in shown])
        ax.minorticks_off()
    letter_panels(axes[0])
    found = estimates(data)
    parts = [
        f"{100 * found[name].value:.0f} % of {words}"
        for name, words in (
            ("bilinear-two-1", "logits told by two eigenvectors"),
            ("bilinear-kept-1", "the saved loss kept by four"),
        )
        if name in found
    ]
    headline(figure, f"One bilinear layer, {record.notes['d_model']} wide: {', '.join(parts)}")
    sample_note(
        figure,
        f"{data.sizes['seed']} seeds, {data.sizes['direction']} output directions: logits of the "
        "most frequent tokens",
    )
    return figure


def _kept(ax: Axes, data: xr.Dataset) -> None:
    """Share of the loss that MLPs save, against the eigenvectors kept of each direction."""
    for depth, colour, label in DEPTHS:
        if depth not in data.depth.values:
            continue
        rows = np.array([kept_share(data, data.kept_loss.sel(kept=k), depth) for k in data.kept])
        if not rows.size:
            continue
        mean_curve(ax, data.kept, rows, colour, label=label, marker="o", markersize=3)
        random = kept_share(data, data.random_loss.mean("draw"), depth)
        ax.plot([4], [random.mean()], "x", color=colour)
    ax.plot([], [], "x", color=GREY, label="four at random")
    reference_line(ax, y=1)
    zero_line(ax)
    ax.set(xscale="log", xlabel="eigenvectors of each direction")
    ax.set(ylabel="share of the saved loss", title="Loss kept")
    ax.legend(fontsize=6, loc="lower right")


def trigrams(record: Record) -> Figure:
    """Pairs of tokens read from the weights of one seed, and rates of what they raise."""
    most = int((record.data.times.values >= FEWEST).sum(axis=1).argmax())
    data = record.data.isel(seed=most)
    own = np.arange(data.sizes["direction"])
    rates = {name: data[name].values[own, own] for name in ("rate_with", "rate_without")}
    seen = np.flatnonzero((data.times.values >= FEWEST) & np.isfinite(rates["rate_without"]))
    order = seen[np.argsort(-data.raised.values[seen], kind="stable")]
    pairs = np.stack([data.source.values[order], data.destination.values[order]])
    shown = order[np.sort(np.unique(pairs, axis=1, return_index=True)[1])][:SHOWN]
    figure, axes = new_figure(1, 2, height=0.8 + 0.19 * len(shown), width_ratios=[1, 1.3])
    raised, follows = axes[0]
    names = [visible(str(name), 8) for name in data.token.values]
    rows = np.arange(len(shown))
    labels = [
        f"{names[int(data.source[i])]} … {names[int(data.destination[i])]} → "
        f"{names[int(data.direction[i])]}"
        for i in shown
    ]
    raised.barh(rows, data.raised.values[shown], 0.6, color=ORANGE)
    raised.set_yticks(rows, labels)
    for label in raised.get_yticklabels():
        label.set(family="monospace", fontsize=6, parse_math=False)
    raised.set(xlabel="adds to the logit, if attended alone")
    for name, shift, colour, label in (
        ("rate_with", -0.2, ORANGE, "behind the source"),
        ("rate_without", 0.2, GREY, "without it"),
    ):
        follows.barh(rows + shift, 100 * rates[name][shown], 0.36, color=colour, label=label)
    follows.set_yticks([])
    follows.set(xlabel="comes next behind the destination, %")
    for ax in axes[0]:
        ax.set_ylim(len(shown) - 0.4, -0.6)
    follows.legend(fontsize=6, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
    letter_panels(axes[0])
    one = estimates(record.data).get("bilinear-trigrams")
    share = "" if one is None else f": {100 * one.value:.0f} % come true more often than without"
    headline(figure, f"Pairs of tokens read from the weights{share}")
    sample_note(
        figure,
        f"seed {most}, which has most; strongest pair of each of {data.sizes['direction']} logits, "
        f"with {FEWEST} occurrences; each pair of these {seen.size} once, with the logit that it "
        "raises most",
    )
    return figure


def occurring(record: Record) -> bool:
    """Whether any pair of any seed is in the text often enough."""
    return bool((record.data.times.values >= FEWEST).any())


FIGURES = (
    FigureSpec(
        "losses",
        losses,
        message="Text models with bilinear MLPs beside GELU and linear ones of equal parameters.",
        caption="Right: a quadratic MLP is the sum of what the token at the position makes by "
        "itself, its products with what heads brought, and what that makes by itself. Where GELU "
        "models of two layers end above those of one, nothing is to be compared with them.",
        refuted="Refuted if bilinear dots lie as high as linear ones.",
    ),
    FigureSpec(
        "eigenvectors",
        eigenvectors,
        message="Spectra of the interaction matrices of logits, and how few eigenvectors do.",
        caption="Eigenvectors by absolute eigenvalue. Right: every direction of an orthonormal "
        "basis of the output keeps as many.",
        refuted="Refuted if trained lines lie on those of the start, or crosses on the curves.",
    ),
    FigureSpec(
        "trigrams",
        trigrams,
        message="Pairs of tokens whose product raises a third one, read from weights, and what "
        "follows them on held-out text.",
        caption="Skip-trigrams of a bilinear layer: source … destination → out, where the raise "
        "depends on both.",
        refuted="Refuted if orange bars are no longer than grey ones on the right.",
        where=occurring,
    ),
)
