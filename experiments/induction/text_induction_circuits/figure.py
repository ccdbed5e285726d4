"""The induction circuit on real text: the framework paper's two-layer figures, over seeds.

composition   The previous-token head feeds the keys of the induction head, as on random texts.
              Refuted if the marked pair does not have the largest z of its K panel.
patterns      In models trained on text, two heads together find the earlier copy of random tokens
              too. Each token is named by a letter; arcs are as thick as the attention. Refuted
              without two stripes: one beside the diagonal, one a period away.
eigenvalues   Training moves heads into the corner of copying and of matching through the
              previous-token head, and not through another. Refuted if induction heads after
              training lie where they lay before.
repeats       Only heads of layer 1 attend to the token after the earlier copy, and raise the right
              token most. At recurring pairs of tokens, on text and on random tokens. Refuted if
              layer 0 attends there too.
terms         Single heads save more loss than virtual heads. Refuted if virtual heads take off more
              loss than single ones.
distance      A head of layer 0 attends to the previous token. Refuted if no head of layer 0 peaks
              one token back.
"""

from matplotlib.figure import Figure

from circuitax.figures.style import styled
from circuitax.records.members import members_where
from circuitax.records.record import Record
from experiments.induction.shared.figure_head_panels import (
    composition,
    eigenvalues,
    patterns,
    repeats,
)
from experiments.induction.shared.figure_term_panels import distance, terms


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The six figures of the experiment."""
    data = record.data
    alive = members_where(data)
    places = {"on text": alive.sel(where="text"), "random tokens": alive.sel(where="random")}
    return {
        "composition": composition(data),
        "patterns": patterns(data),
        "eigenvalues": eigenvalues(data),
        "repeats": repeats(places),
        "terms": terms(alive),
        "distance": distance(alive),
    }
