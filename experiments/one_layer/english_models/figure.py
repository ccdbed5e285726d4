"""On English prose, too, each layer lowers the loss; and the gain from more text."""

from matplotlib.figure import Figure

from circuitax.figures.notice import notice
from circuitax.figures.spec import FigureSpec
from circuitax.records.record import Record
from experiments.one_layer.shared.figure_text_family import positions, samples
from experiments.one_layer.shared.figure_text_family import training as losses


def _has_text(record: Record) -> bool:
    return "missing" not in record.notes


def training(record: Record) -> Figure:
    """Held-out loss over training and against the length of training, and at the end, by seed."""
    if not _has_text(record):
        return notice(f"not at hand: {record.notes['missing']}")
    return losses(record)


FIGURES = (
    FigureSpec(
        "training",
        training,
        message="Zero layers stop at the bigram table of the prose; one and two layers fall below "
        "it, but not below the trigram table.",
        caption="Held-out losses along the longest training (a), at the ends of trainings of "
        "several lengths with a law through them, dashed beyond the longest (b), and of each seed "
        "(c).",
        refuted="Refuted if the solid line lies above the layers.",
    ),
    FigureSpec(
        "positions",
        positions,
        message="Layers gain from context: they lower the loss of late tokens more than that of "
        "early ones.",
        refuted="Refuted if the curves of one and two layers are flat. On repeated random tokens "
        "a late gain would be an induction head.",
        where=_has_text,
    ),
    FigureSpec(
        "samples",
        samples,
        message="Samples of each model after one prompt.",
        caption="No claim is settled by them.",
        where=_has_text,
    ),
)
