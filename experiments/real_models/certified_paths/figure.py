"""Proofs of the largest paths of a real model, and the paths missed by scores of heads."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullLocator

from circuitax.figures.marks import mean_bars, reference_line, seed_column, zero_line
from circuitax.figures.notice import notice
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import headline, letter_panels, new_figure, sample_note
from circuitax.records.record import Record
from experiments.real_models.certified_paths.measures import heads_of
from experiments.real_models.shared.model_facts import model_read

KINDS = {"random tokens": BLUE, "prose": ORANGE}
SHORT = {
    "gradient": "gradient",
    "frozen gradient": "frozen\ngradient",
    "direct effect": "direct\neffect",
}


def certificate(record: Record) -> Figure:
    """Decrease of the bound, its cost, and the orders of the listed paths."""
    if record.notes["missing"]:
        return notice(f"Nothing was measured.\n{record.notes['missing']}")
    data, what = record.data, model_read(record.notes)
    figure, axes = new_figure(1, 3, height=2.4)
    bound, cost, orders = axes[0]
    for kind, colour in KINDS.items():
        rows = data.isel(prompt=np.flatnonzero(data.kind.values == kind))
        for gap in rows.gap.values:
            bound.plot(data.evaluations, gap, color=colour, linewidth=0.3, alpha=0.5)
        middle = rows.gap.median("prompt")
        bound.plot(data.evaluations, middle, color=colour, linewidth=1.5, label=f"{kind}, median")
        seconds = rows.bounds_seconds + rows.search_seconds
        cost.scatter(rows.n_evaluated / 1000, seconds, s=8, color=colour, linewidths=0, alpha=0.7)
    reference_line(bound, y=1, label="proof")
    bound.set(xscale="log", yscale="log", xlabel="paths evaluated")
    bound.set_ylim(bottom=0.2)  # room for the legend
    bound.set(ylabel=f"bound over value {data.sizes['rank']}", title="Bound on all other paths")
    bound.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    bound.yaxis.set_major_formatter("{x:g}")
    bound.yaxis.set_minor_locator(NullLocator())
    bound.legend(fontsize=6, loc="lower left")
    cost.set(xlabel="paths evaluated, thousands", ylabel="CPU seconds", ylim=(0, None))
    cost.set_xlim(left=0)
    cost.set_title("Cost of a list")
    shown = ((data.order_sum, GREY, -0.2, "all paths"), (data.order_found, GREEN, 0.2, "listed"))
    for sums, colour, shift, label in shown:
        rows = sums.transpose("order", "prompt").values
        mean_bars(orders, rows, colour, shift=shift, width=0.38, label=label)
    zero_line(orders)
    last = data.sizes["order"] - 1
    orders.set_xticks(range(last + 1), [*map(str, range(last)), f"≥{last}"])
    orders.set(xlabel="heads on the path", ylabel="sum of paths, logits")
    orders.set_title("Where the lead comes from")
    orders.legend(fontsize=6)
    letter_panels(axes[0])
    n, proven = data.sizes["prompt"], int(data.complete.sum())
    headline(
        figure,
        f"{what}: the {data.sizes['rank']} largest paths are proven on {proven} of {n} prompts; "
        "95 % t in c",
    )
    return figure


def attribution(record: Record) -> Figure:
    """Paths missed by scores of heads, and one list with the paths that gradients hide."""
    data, what = record.data, model_read(record.notes)
    figure, axes = new_figure(1, 2, height=3.0, width_ratios=(1.3, 1))
    shares, example = axes[0]
    proven = data.isel(prompt=np.flatnonzero(data.complete.values))
    missed = (("missed_heads", BLUE, -0.2, "heads"), ("missed_paths", ORANGE, 0.2, "paths"))
    for i, score in enumerate(data.score.values):
        for name, colour, shift, label in missed:
            values = proven[name].sel(score=score).values
            values = values[np.isfinite(values)]
            if values.size:
                seed_column(
                    shares,
                    i + shift,
                    values,
                    colour,
                    form=".2f",
                    size=5,
                    label=label if not i else None,
                )
    shares.set_xticks(range(data.sizes["score"]), [SHORT[str(s)] for s in data.score.values])
    shares.set(ylabel="share missed", ylim=(-0.04, 1.19), title="What scores of heads leave out")
    shares.legend(title="of the list", fontsize=6, title_fontsize=6, loc="lower left")
    one = data.isel(prompt=0)
    names = [str(name) for name in one.path.values if name]
    places = np.arange(len(names))
    colours = [
        (ORANGE if hidden else BLUE) if heads_of(name) else GREY
        for name, hidden in zip(names, one.hidden.values, strict=False)
    ]
    example.barh(places, one.value.values[: len(names)], color=colours)
    example.set_yticks(places, names, fontsize=6)
    example.invert_yaxis()
    zero_line(example, vertical=True)
    example.set(xlabel="adds to the lead, logits", title=f"A list: {one.kind.item()}")
    marks = {"not named": ORANGE, "all named": BLUE, "no head": GREY}
    example.legend(
        handles=[Patch(color=colour, label=label) for label, colour in marks.items()],
        fontsize=6,
        title="heads, by gradient",
        title_fontsize=6,
    )
    letter_panels(axes[0])
    missed = proven.missed_heads.mean("prompt")
    each = sorted(zip(missed.values.tolist(), missed.score.values.tolist(), strict=True))
    most, least = (
        f"{100 * share:.0f} % by {SHORT[name]}".replace("\n", " ")
        for share, name in (each[-1], each[0])
    )
    headline(figure, f"{what}: of the heads on the largest paths scores miss {most}, {least}")
    sample_note(
        figure, f"a: {proven.sizes['prompt']} prompts, mean and 95 % t interval; b: the first"
    )
    return figure


FIGURES = (
    FigureSpec(
        "certificate",
        certificate,
        message="Proof of the largest paths: the bound on every unlisted path, over the last "
        "listed one, during the search (left).",
        caption="A line that reaches 1 is a proof, and the goal is missed if lines end above it. "
        "Middle: the cost of a list. Right: contributions to the lead of paths through 0, 1, 2, "
        "... heads, all of them and those listed.",
    ),
    FigureSpec(
        "attribution",
        attribution,
        message="Heads and paths missed by three scores of heads.",
        caption="Left: their shares; a dot is a prompt. Right: the list of one prompt, with the "
        "paths that gradients hide. Nothing is missed if the dots lie at 0.",
        where=lambda record: not record.notes["missing"],
    ),
)
