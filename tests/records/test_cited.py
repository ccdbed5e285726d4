"""Every claim belongs to the papers that its source names, so that a reader finds it."""

import pytest

from circuitax.config.catalogue import CLAIMS, discover
from circuitax.records import cited


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("Toy Models of Superposition, geometry", ("Toy-models paper",)),
        ("Official notebook of Toy Models of Superposition, n = 5", ("Toy-models paper",)),
        (
            "S0 section 6; framework paper",
            ("Framework paper", "S0, Some Structures in Transformer Architectures"),
        ),
        ("our own statement", (cited.NO_PAPER,)),
    ],
)
def test_a_source_names_papers(source: str, named: tuple[str, ...]) -> None:
    assert cited.named(source) == named
    assert sorted(named, key=cited.order) == list(named)


def test_every_published_claim_and_every_title_is_named() -> None:
    claims = [claim for entry in discover().values() for claim in entry.load(CLAIMS).CLAIMS]
    assert len(claims) > 500
    unnamed = {
        claim.source
        for claim in claims
        if claim.origin == "published" and cited.NO_PAPER in cited.named(claim.source)
    }
    assert not unnamed
    used = {title for claim in claims for title in cited.named(claim.source)}
    places = [cited.order(title) for title in used]
    assert sorted(places) == list(range(len(used))), "a title that no claim has"
