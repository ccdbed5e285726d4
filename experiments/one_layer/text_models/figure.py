"""On real text each layer lowers the loss: none is a bigram model, one reads the context.

training   Zero layers stop at the bigram table of the corpus; one and two layers fall below it. The
           middle panel has whole trainings of several lengths, with a law through their ends
           (dashed beyond the longest). Refuted if the blue curve ends below the dashed line, or the
           layers' bands overlap.
positions  Layers gain from context: they lower the loss of late tokens more than that of early
           ones. Refuted if the curves of one and two layers are flat. On repeated random tokens a
           late gain would be an induction head.
samples    Samples of each model after one prompt. No claim is settled by them.
sweep      (experiments.collect, after a sweep over the width) Width lowers the loss at any length
           of training, depth only after a long enough one. Refuted if a line of a rises.
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
