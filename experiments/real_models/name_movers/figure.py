"""Heads that bring the indirect object to the end of a sentence."""

import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line
from circuitax.figures.notice import notice
from circuitax.figures.palette import BLUE, GREY, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.record import Record
from experiments.real_models.shared.model_facts import model_read


def movers(record: Record) -> Figure:
    """Direct effect of each head by layer, and effects of the chosen heads by their attention."""
    if record.notes["missing"]:
        return notice(f"Nothing was measured.\n{record.notes['missing']}")
    data, what = record.data, model_read(record.notes)
    figure, axes = new_figure(1, 2, height=3.0)
    left, right = axes[0]
    seen = data.isel(half=1)
    effect = seen.direct.sel(name="indirect object") - seen.direct.sel(name="subject")
    mean = effect.mean("sentence").transpose("layer", "head").values
    layers = np.repeat(np.arange(mean.shape[0]), mean.shape[1])
    left.plot(layers, mean.ravel(), ".", color=GREY, markersize=3)
    chosen = list(zip(data.mover_layer.values, data.mover_head.values, strict=True))
    left.plot([i for i, _ in chosen], [mean[i, h] for i, h in chosen], "o", color=ORANGE)
    for i, h in chosen:
        left.annotate(f" {i}.{h}", (i, mean[i, h]), fontsize=6)
    reference_line(left, y=0)
    left.set(xlabel="layer", ylabel="direct effect on the lead", title=what)
    for name, colour, marker in (("indirect object", ORANGE, "o"), ("subject", BLUE, "x")):
        places = [place for place in data.place.values if str(place).startswith(name)]
        for n, (i, h) in enumerate(chosen):
            at = seen.isel(layer=i, head=h)
            to = at.attention.sel(place=places).sum("place").values
            label = f"the {name}" if n == 0 else None
            raised = at.direct.sel(name=name).values
            right.plot(to, raised, marker, color=colour, markersize=3, label=label)
    right.set(xlabel="attention from the end to the name", ylabel="direct effect on its logit")
    right.set_title("The chosen heads, other names")
    right.legend()
    letter_panels(axes[0])
    return figure


FIGURES = (
    FigureSpec(
        "movers",
        movers,
        message="Few heads, deep in the model, give the indirect object its lead: one attends to "
        "it, and one to the subject, which it lowers.",
        refuted="Refuted if the marked dots of the left panel do not stand out, or if those of "
        "the right panel lie on one line with the subject's.",
    ),
)
