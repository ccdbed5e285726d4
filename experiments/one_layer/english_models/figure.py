"""On English prose, too, each layer lowers the loss; and the gain from more text.

training   Zero layers stop at the bigram table of the prose; one and two layers fall below it, but
           not below the trigram table. Held-out losses along the longest training (a), at the ends
           of trainings of several lengths with a law through them, dashed beyond the longest (b),
           and of each seed (c). Refuted if the solid line lies above the layers.
positions  Layers gain from context: they lower the loss of late tokens more than that of early
           ones. Refuted if the curves of one and two layers are flat. On repeated random tokens a
           late gain would be an induction head.
samples    Samples of each model after one prompt. No claim is settled by them.
"""

from matplotlib.figure import Figure

from circuitax.figures.notice import notice
from circuitax.figures.style import styled
from circuitax.records.record import Record
from experiments.one_layer.shared.figure_text_family import positions, samples, training


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The figures of `text_models`; without the English text, a page that says so."""
    if "missing" in record.notes:
        return {"training": notice(f"not at hand: {record.notes['missing']}")}
    return {
        "training": training(record),
        "positions": positions(record),
        "samples": samples(record),
    }
