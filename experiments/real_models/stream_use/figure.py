"""Use of a real model's stream by its embeddings, neurons and heads."""

import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, zero_line
from circuitax.figures.palette import BLACK, BLUE, GREY, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.record import Record

COLOURS = {"read": (BLUE, "what it reads"), "gate": (ORANGE, "what opens its gate")}


def use(record: Record) -> Figure:
    """Spectrum of embeddings, cosines of neurons, and eigenvalues of heads."""
    data = record.data
    figure, axes = new_figure(1, 3, height=2.5)
    spectrum, neurons, heads = axes[0]
    n = data.sizes["component"]
    kept = np.arange(1, n + 1) / n
    spectrum.plot(kept, np.cumsum(data.variance.values), color=BLUE, label="embeddings")
    spectrum.plot(kept, kept, color=BLACK, linestyle=":", label="all directions alike")
    spectrum.set(xlabel="share of components", ylabel="share of variance", title="tokens")
    spectrum.legend(loc="lower right")
    width = float(data.centre[1] - data.centre[0])
    total = data["count"].sum("bin").values
    for i, name in enumerate(data["map"].values):
        colour, label = COLOURS[str(name)]
        density = data["count"].values[i] / total[i] / width
        neurons.step(data.centre, np.maximum(density, 1e-9), color=colour, label=label, where="mid")
    law = np.sqrt(n / (2 * np.pi)) * np.exp(-n * data.centre.values**2 / 2)
    neurons.plot(data.centre, law, color=GREY, linestyle="--", label="random directions")
    least = float(np.min(1 / total) / width)
    neurons.set(yscale="log", ylim=(least / 2, 20), xlabel="cosine with what it writes")
    neurons.set(ylabel="density of neurons", title=f"{int(total[0]):,} neurons")
    legend_above(figure, neurons, columns=3)
    score, present = data.eigenvalues.values.ravel(), data.present.mean("text").values.ravel()
    heads.plot(score, present, "o", color=BLUE, markersize=2.5, linestyle="none", alpha=0.7)
    zero_line(heads, vertical=True)
    heads.set(xlabel="eigenvalue score of $W_V W_O$", ylabel="attention to present token")
    heads.set(title=f"{score.size} heads, {data.sizes['text']} texts", xlim=(-1.05, 1.05))
    letter_panels(axes[0])
    return figure


FIGURES = (
    FigureSpec(
        "use",
        use,
        message="Embeddings take up most of the stream; many neurons write against their input "
        "direction; heads with an eigenvalue score near -1 attend most to the present token.",
        caption="The sign of a cosine with the gate is a convention: a neuron stays the same when "
        "the directions that it reads and writes are both turned round.",
        refuted="Refuted, panel by panel: if the curve rises at once; if no neuron lies left of "
        "the random law; if the dots at the left edge lie as low as their neighbours.",
        where=lambda record: not record.notes["missing"],
    ),
)
