"""Heads by the distance they look back, from weights and on text."""

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line
from circuitax.figures.notice import notice
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE, PINK, SEQUENTIAL, SKY
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import headline, letter_panels, new_figure
from circuitax.records.record import Record
from experiments.real_models.rotary_atlas.measures import by_name
from experiments.real_models.rotary_atlas.names import LOCAL, PREVIOUS
from experiments.real_models.rotary_atlas.roc import roc_area, roc_curve
from experiments.real_models.shared.model_facts import model_read

CONTENTS = {
    "untouched": (BLUE, "weights alone"),
    "spread": (SKY, "weights, each content"),
    "random": (PINK, "random tokens"),
    "stream": (ORANGE, "mean streams"),
    "embedding": (GREEN, "embeddings"),
}


def atlas(record: Record) -> Figure:
    """Three maps of heads by offsets: from weights, from mean streams, and measured on prose."""
    if record.notes["missing"]:
        return notice(f"Nothing was measured.\n{record.notes['missing']}")
    data, what = record.data, model_read(record.notes)
    figure, axes = new_figure(1, 3, height=3.2, sharey=True)
    order = np.argsort(-by_name(data, "previous", "untouched").ravel(), kind="stable")
    maps = (
        ("From weights alone", data.predicted.sel(content="untouched")),
        ("From mean streams", data.predicted.sel(content="stream")),
        ("Measured on prose", data.measured),
    )
    colours = PowerNorm(0.5, vmin=0, vmax=1)  # so that weak attention can be told from none
    for ax, (title, kernel) in zip(axes[0], maps, strict=True):
        rows = kernel.values.reshape(order.size, -1)[order]
        shown = ax.imshow(
            rows, aspect="auto", cmap=SEQUENTIAL, norm=colours, interpolation="nearest"
        )
        ax.set(xlabel="tokens back", title=title)
    axes[0, 0].set_ylabel("heads, by prediction from weights")
    figure.colorbar(shown, ax=axes[0].tolist(), label="attention, root scale", shrink=0.8)
    letter_panels(axes[0])
    seen = data.previous.mean("text").values.ravel()
    alike = [
        np.corrcoef(by_name(data, "previous", content).ravel(), seen)[0, 1]
        for content in ("untouched", "stream")
    ]
    headline(
        figure,
        f"{what}: attention one token back follows from weights alone with correlation "
        f"{alike[0]:.2f}, from mean streams with {alike[1]:.2f}",
    )
    return figure


def names(record: Record) -> Figure:
    """Agreement of names with measured attention, overall and head by head."""
    data, what = record.data, model_read(record.notes)
    figure, axes = new_figure(1, 3, height=2.6)
    previous, local, scatter = axes[0]
    groups = (
        (
            previous,
            "previous",
            data.previous.mean("text").values >= PREVIOUS,
            "Previous token",
        ),
        (local, "local", data.local.mean("text").values >= LOCAL, "Last five tokens"),
    )
    for ax, name, group, title in groups:
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.5)
        both = group.any() and not group.all()
        for content, (colour, label) in CONTENTS.items() if both else ():
            if content not in data.content:
                continue
            scores = by_name(data, name, content)
            curve = roc_curve(group, scores)
            text = f"{label}: {roc_area(group, scores):.3f}"
            ax.step(curve.false_alarms, curve.hits, color=colour, where="post", label=text)
        ax.set(xlabel="share of other heads", ylabel="share of these heads")
        ax.set(title=f"{title}: {group.sum()} of {group.size}", ylim=(0, 1.03))
        if both:
            ax.legend(
                loc="lower right",
                fontsize=6,
                title="area",
                title_fontsize=6,
                labelcolor="linecolor",
                handlelength=0,
                handletextpad=0,
            )
    seen = data.previous.mean("text").values.ravel()
    for content in ("stream", "untouched"):
        colour, label = CONTENTS[content]
        predicted = by_name(data, "previous", content).ravel()
        scatter.scatter(predicted, seen, s=5, color=colour, alpha=0.6, linewidths=0, label=label)
    reference_line(scatter, y=PREVIOUS)
    scatter.set(
        xlabel="predicted", ylabel=f"measured, mean of {data.sizes['text']} texts", ylim=(0, 1.03)
    )
    scatter.legend(fontsize=6, loc="lower right")
    scatter.set_title("Attention one back")
    letter_panels(axes[0])
    known = data.previous.mean("text").values >= PREVIOUS
    message = f"{what}: heads named from mean contents"
    if known.any() and not known.all():
        alone, stream = (
            roc_area(known, by_name(data, "previous", content))
            for content in ("untouched", "stream")
        )
        message = (
            f"{what}: previous-token heads are told from others by weights alone in {alone:.0%} of "
            f"pairs, by mean streams in {stream:.0%}"
        ).replace("%", " %")
    headline(figure, message)
    return figure


FIGURES = (
    FigureSpec(
        "atlas",
        atlas,
        message="Attention of all heads by offset, ordered by the predicted attention to the "
        "previous token: the kernel of their mean scores, beside their attention on prose.",
        caption="The maps would differ if weights were uninformative.",
    ),
    FigureSpec(
        "names",
        names,
        message="ROC curves of previous-token heads and local heads from five kinds of contents "
        "(left); on the diagonal weights are uninformative.",
        caption="Right: predicted against measured attention to the previous token.",
        where=lambda record: not record.notes["missing"],
    ),
)
