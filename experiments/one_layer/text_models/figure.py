"""On real text each layer lowers the loss: none is a bigram model, one reads the context.

training   Zero layers stop at the bigram table of the corpus; one and two layers go below it. The
           middle panel has whole trainings of several lengths, with a law through their ends
           (dashed beyond the longest). Refuted if the blue curve ends below the dashed line, or
           the layers' bands overlap.
positions  Layers earn their loss from context: late tokens gain more from them than early ones.
           Refuted if the curves of one and two layers are flat. On repeated random tokens a late
           gain would be an induction head.
samples    What each model makes of one prompt. Nothing is settled by it.
sweep      (experiments.collect, after a sweep over the width) Width lowers the loss however short
           the training, depth only after enough of it. Refuted if a line of a rises.
"""

from matplotlib.figure import Figure

from circuitax.figures.style import styled
from circuitax.records.record import Record
from experiments.one_layer.shared.figure_text_family import positions, samples, sweep, training


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The figures of the experiment."""
    return {
        "training": training(record),
        "positions": positions(record),
        "samples": samples(record),
    }


@styled
def draw_sweep(record: Record) -> dict[str, Figure]:
    """The last losses of a collected sweep over one size, if it is one."""
    return sweep(record)
