"""The induction circuit on real text: the framework paper's two-layer figures, over seeds."""

from matplotlib.figure import Figure

from circuitax.figures.spec import FigureSpec
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.induction.shared.figure_head_panels import (
    composition,
    eigenvalues,
    patterns,
    repeats_of,
)
from experiments.induction.shared.figure_term_panels import distance, terms


def repeats(record: Record) -> Figure:
    """Attention, value-weighted attention and logit effect at repeats, one dot for each head."""
    alive = members_where(record.data)
    return repeats_of(
        {"on text": alive.sel(where="text"), "random tokens": alive.sel(where="random")}
    )


FIGURES = (
    FigureSpec(
        "composition",
        composition,
        message="The previous-token head feeds the keys of the induction head, as on random texts.",
        refuted="Refuted if the marked pair does not have the largest z of its K panel.",
    ),
    FigureSpec(
        "patterns",
        patterns,
        message="In models trained on text, two heads together find the earlier copy of random "
        "tokens too.",
        caption="Each token is named by a letter; arcs are as thick as the attention.",
        refuted="Refuted without two stripes: one beside the diagonal, one a period away.",
    ),
    FigureSpec(
        "eigenvalues",
        eigenvalues,
        message="Training moves heads into the corner of copying and of matching through the "
        "previous-token head, and not through another.",
        refuted="Refuted if induction heads after training lie where they lay before.",
    ),
    FigureSpec(
        "repeats",
        repeats,
        message="Only heads of layer 1 attend to the token after the earlier copy, and raise the "
        "right token most.",
        caption="At recurring pairs of tokens, on text and on random tokens.",
        refuted="Refuted if layer 0 attends there too.",
    ),
    FigureSpec(
        "terms",
        terms,
        message="Single heads save more loss than virtual heads.",
        refuted="Refuted if virtual heads take off more loss than single ones.",
    ),
    FigureSpec(
        "distance",
        distance,
        message="A head of layer 0 attends to the previous token.",
        refuted="Refuted if no head of layer 0 peaks one token back.",
    ),
)
