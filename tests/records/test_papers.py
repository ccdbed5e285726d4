"""Every published claim cites a paper, and every paper is cited, so that a reader finds it."""

from circuitax.config.catalogue import discover
from circuitax.records import papers
from circuitax.records.papers import Paper

CLAIMS = [claim for entry in discover().values() for claim in entry.load_claims()]
CITED_BY_LINK = {
    papers.FRAMEWORK: Paper.FRAMEWORK,
    papers.INDUCTION: Paper.INDUCTION,
    papers.TOY_MODELS: Paper.TOY_MODELS,
    papers.TOY_MODELS_CODE: Paper.TOY_MODELS,
    papers.STRUCTURES: Paper.S0,
    papers.KEY_VALUES: Paper.GEVA_2021,
    papers.SCALING: Paper.LIU_2025,
    papers.MEMORIZATION: Paper.HENIGHAN_2023,
    papers.CONSTRUCTIVE: Paper.PRIETO_2026,
    papers.ARENA: Paper.ARENA,
}


def test_every_published_claim_cites_a_paper() -> None:
    assert len(CLAIMS) > 500
    assert not [claim.id for claim in CLAIMS if claim.origin == "published" and not claim.cites]


def test_the_paper_that_a_claim_leads_to_is_cited() -> None:
    linked = [claim for claim in CLAIMS if claim.link in CITED_BY_LINK]
    assert len(linked) > 250
    assert not [c.id for c in linked if CITED_BY_LINK[c.link] not in c.cites]


def test_papers_are_cited_once_each_in_their_order_and_none_without_need() -> None:
    order = list(Paper)
    for claim in CLAIMS:
        places = [order.index(Paper(paper)) for paper in claim.cites]
        assert places == sorted(set(places)), claim.id
    assert {paper for claim in CLAIMS for paper in claim.cites} == set(Paper)
