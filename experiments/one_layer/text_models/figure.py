"""On real text each layer lowers the loss: none is a bigram model, one reads the context."""

from circuitax.figures.spec import FigureSpec
from experiments.one_layer.shared.figure_text_family import (
    is_of_one_size,
    positions,
    samples,
    sweep,
    training,
)

FIGURES = (
    FigureSpec(
        "training",
        training,
        message="Zero layers stop at the bigram table of the corpus; one and two layers fall "
        "below it.",
        caption="The middle panel has whole trainings of several lengths, with a law through "
        "their ends (dashed beyond the longest).",
        refuted="Refuted if the blue curve ends below the dashed line, or the layers' bands "
        "overlap.",
    ),
    FigureSpec(
        "positions",
        positions,
        message="Layers gain from context: they lower the loss of late tokens more than that of "
        "early ones.",
        refuted="Refuted if the curves of one and two layers are flat. On repeated random tokens "
        "a late gain would be an induction head.",
    ),
    FigureSpec(
        "samples",
        samples,
        message="Samples of each model after one prompt.",
        caption="No claim is settled by them.",
    ),
)
SWEEP_FIGURES = (
    FigureSpec(
        "sweep",
        sweep,
        message="Width lowers the loss at any "
        "length of training, depth only after a long enough one.",
        refuted="Refuted if a line of a rises.",
        where=is_of_one_size,
    ),
)
