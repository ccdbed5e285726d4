"""What models of text are held against: each further layer must lower the held-out loss."""

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least

PAPERS = ClaimSource(
    "induction-heads paper, loss curves (O4); framework paper",
    kind="shape",
    n=5,
    why="a relation: the corpus changes with the Python version",
    selection="all seeds that stayed finite; each its own data",
    opening="On real text ",
    origin="published",
    link=papers.INDUCTION,
)

CLAIMS = (
    PAPERS.claim(
        "text-one-layer",
        "one layer beats zero: gap between the 95 % intervals of held-out loss over seeds, nats",
        at_least(0),
    ),
    PAPERS.claim(
        "text-two-layers",
        "two layers beat one: gap between the 95 % intervals of held-out loss over seeds, nats",
        at_least(0),
    ),
)
