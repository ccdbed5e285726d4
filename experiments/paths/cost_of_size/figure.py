"""Figures of cost_of_size, drawn from its record alone."""

import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.marks import interval_bars
from circuitax.figures.palette import BLACK, BLUE, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import headline, letter_panels, new_figure, sample_note
from circuitax.records.claims import FAILS, HOLDS, UNDECIDED
from circuitax.records.estimate import Estimate
from circuitax.records.record import Record
from experiments.paths.cost_of_size.claims import CLAIMS
from experiments.paths.cost_of_size.measures import LARGEST, costs_of, end_of_one_machine, measure

FAR = 1e4  # no line is continued further than so many times the largest size
ALLOWED = "the most that claims allow"
# What grows, and the axis below it.
PANELS = {
    "heads": "heads",
    "vocabulary": "tokens of the vocabulary",
    "paths": "paths of heads",
    "members": "toy models in training",
    "points": "points",
    "dimensions": "dimensions of 1,000 points",
}
# End of a claim's name, colour, mark, label and name of each cost.
COSTS = {
    "seconds": ("", BLUE, "o", "processor time, s", "time"),
    "megabytes": ("-memory", ORANGE, "s", "memory, MB", "memory"),
}


def growth(record: Record) -> Figure:
    """One panel for each thing that grows, time and memory on one logarithmic axis."""
    found = measure(record).estimates
    allowed = {claim.quantity: claim.expected.high for claim in CLAIMS}
    figure, axes = new_figure(2, 3, height=4.6)
    for ax, (name, label) in zip(axes.ravel(), PANELS.items(), strict=True):
        grown = []
        for cost, (suffix, colour, mark, what, short) in COSTS.items():
            size, costs = costs_of(record.data, name, cost)
            middle = np.median(costs, axis=1)
            ends = [
                Estimate(m, row.min(), row.max(), len(row), "least and largest round")
                for m, row in zip(middle, costs, strict=True)
            ]
            interval_bars(ax, size, ends, colour=colour, fmt=mark, markersize=3)
            ax.plot(size, middle, color=colour, marker=mark, markersize=3, label=what)
            quantity = f"cost-{name}{suffix}"
            grown.append(f"{short} $\\propto n^{{{found[quantity].value:.2f}}}$")
            if quantity in allowed:
                # From where exponents are measured on: before, what does not grow may prevail.
                start = len(size) - LARGEST if len(size) > LARGEST else 0
                line = middle[start] * (size[start:] / size[start]) ** allowed[quantity]
                ax.plot(
                    size[start:], line, color=BLACK, linestyle=":", linewidth=0.8, label=ALLOWED
                )
        ax.set(xscale="log", yscale="log", xlabel=label)
        ax.set_xticks(size, [_short(each) for each in size])
        ax.minorticks_off()
        end = _end(*end_of_one_machine(record.data, name), size[-1])
        ax.set_title(f"{', '.join(grown)}\n{end}", fontsize=7)
    for row in axes:
        row[0].set_ylabel("s, and MB")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    shown = dict(zip(labels, handles, strict=True))
    # In the panel of paths, whose memory nobody bounds: free between its two curves.
    axes[0, 2].legend(shown.values(), shown, loc="upper left", bbox_to_anchor=(0, 0.78))
    letter_panels(axes.ravel())
    headline(figure, _message(found))
    words = f"{record.data.sizes['round']} rounds; bars from least to greatest"
    sample_note(figure, f"{words}; exponents at the {LARGEST} largest sizes")
    return figure


def _message(found: dict[str, Estimate]) -> str:
    """Counts of claims that hold, and the undecided or failed ones, by the settling rule."""
    told: dict[str, list[str]] = {HOLDS: [], UNDECIDED: [], FAILS: []}
    for claim in CLAIMS:
        name, _, memory = claim.quantity.removeprefix("cost-").partition("-")
        told[claim.expected.verdict(found[claim.quantity])].append(
            f"{'memory' if memory else 'time'} over {name}"
        )
    parts = [f"{len(told[HOLDS])} of {len(CLAIMS)} exponents of cost are as claimed"]
    parts += [f"{kind}: {', '.join(told[kind])}" for kind in (UNDECIDED, FAILS) if told[kind]]
    return "; ".join(parts)


def _end(size: float, first: str, largest: float) -> str:
    if size > FAR * largest:
        return f"ends beyond {_short(FAR * largest)}"
    return f"ends near {_short(size)}, by {'time' if first == 'seconds' else 'memory'}"


def _short(size: float) -> str:
    """Two digits: 256, 8k, 130M; a power of ten beyond."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if unit <= size < 1000 * unit:
            return f"{float(f'{size / unit:.2g}'):g}{name}"
    return f"{size:.0f}" if size < 1000 else f"$10^{{{np.log10(size):.0f}}}$"


FIGURES = (
    FigureSpec(
        "growth",
        growth,
        message="Growth of processor time and memory with size in six computations, and the "
        "limits of one machine.",
        caption="Processor time and memory against size n, and the size at which a machine of two "
        "cores and 16 GB ends within a day.",
        refuted="Refuted if its headline counts a claim that fails.",
    ),
)
