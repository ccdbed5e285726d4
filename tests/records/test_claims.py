"""Verdicts: what holds, fails, is undecided, absent or not run, and what must not pass silently."""

import dataclasses
import json
import math

import pytest

from circuitax.records.claims import (
    VERDICTS,
    Claim,
    ClaimSource,
    Expected,
    at_least,
    at_most,
    between,
    near,
    settle,
    unmet_rest,
)
from circuitax.records.estimate import Estimate, exact
from circuitax.records.nulls import Null
from circuitax.records.settled_json import settled_from_json, settled_to_json

OF = {"origin": "published", "link": "https://example.org/paper"}
CLAIM = Claim(
    "c", "S0 Ex. 26", "It is so", "rate", near(0.75, 0.02), "two digits printed", n=4, origin="ours"
)


def estimate(value: float, low: float, high: float, n: int = 4) -> Estimate:
    return Estimate(value, low, high, n, "mean")


@pytest.mark.parametrize(
    ("expected", "measured", "verdict"),
    [
        (near(0.75, 0.02), estimate(0.765, 0.74, 0.769), "holds"),
        (near(0.75, 0.02), estimate(0.765, 0.7, 0.8), "undecided"),  # its value lies inside
        (near(0.75, 0.02), estimate(0.78, 0.74, 0.82), "undecided"),  # its value lies outside
        (near(0.75, 0.02), estimate(0.79, 0.78, 0.82), "fails"),
        (near(0.75, 0.02), estimate(0.7, 0.68, 0.72), "fails"),
        (between(1, 2), exact(2.0), "holds"),
        (between(1, 2), exact(2.0001), "fails"),
        (at_least(0.5), estimate(0.6, 0.45, 0.75), "undecided"),
        (at_least(0.5), estimate(0.6, 0.51, 0.75), "holds"),
        (at_least(0.5), estimate(0.3, 0.2, 0.49), "fails"),
        (at_most(0.5), estimate(0.4, 0.3, 0.49), "holds"),
        (at_most(0.5), estimate(0.4, 0.3, 0.51), "undecided"),
        (at_most(0.5), estimate(0.6, 0.51, 0.75), "fails"),
        (at_most(0.5), estimate(0.4, -math.inf, math.inf), "undecided"),  # a single seed
        (near(0.0, 1.0), exact(math.nan), "fails"),
        (at_least(0.0), Estimate(math.nan, -math.inf, math.inf, 4, "mean"), "fails"),
    ],
)
def test_one_rule_for_every_claim(expected: Expected, measured: Estimate, verdict: str) -> None:
    assert expected.verdict(measured) == verdict


def test_settle_gives_every_verdict() -> None:
    names = ("holds", "absent", "not run", "would hold anyway")
    claims = [dataclasses.replace(CLAIM, id=name) for name in names]
    for name in ("fails", "undecided"):
        claims.append(dataclasses.replace(CLAIM, id=name, quantity=name, explanation="known"))
    claims[3] = dataclasses.replace(claims[3], null=Null("untrained", "the weights at the start"))
    claims.append(dataclasses.replace(CLAIM, id="few", n=5))
    claims.append(dataclasses.replace(CLAIM, id="lost", n=5, explanation="one is lost"))
    measured = {
        "rate": estimate(0.75, 0.74, 0.76),
        "fails": estimate(0.5, 0.4, 0.6),
        "undecided": estimate(0.75, 0.6, 0.9),
    }
    unsettled = {"absent": "no head exists"}, {"not run": "no weights"}
    nulls = {"untrained": {"rate": [0.76]}}
    found = {v.claim.id: v for v in settle(claims, measured, *unsettled, nulls)}
    for name in VERDICTS:
        assert found[name].verdict == name
    assert found["holds"].reason == ""
    assert found["fails"].reason == found["undecided"].reason == "known"
    assert found["absent"].reason == "no head exists" and found["absent"].estimate is not None
    assert found["not run"].reason == "no weights"
    # Measured, but on too few: that is open, and no lack of weights.
    assert (found["few"].verdict, found["few"].reason) == ("undecided", "n = 4 of 5 planned")
    assert found["lost"].verdict == "undecided"
    assert found["lost"].reason == "n = 4 of 5 planned: one is lost"


def test_a_claim_cannot_be_forgotten() -> None:
    with pytest.raises(ValueError, match=r"claim 'c' needs measured\['rate'\], unmet\['c'\] or"):
        settle([CLAIM], {"loss": exact(1.0)}, {})
    with pytest.raises(ValueError, match=r"unmet or not_run names \['d'\]"):
        settle([CLAIM], {"rate": exact(1.0)}, {"d": "why"})
    with pytest.raises(ValueError, match=r"unmet or not_run names \['d'\]"):
        settle([CLAIM], {"rate": exact(1.0)}, {}, {"d": "why"})


@pytest.mark.parametrize("measured", [{"rate": estimate(0.6, -math.inf, 0.7)}, {}])
def test_json_round_trip(measured: dict[str, Estimate]) -> None:
    claim = dataclasses.replace(CLAIM, expected=at_least(0.5), printed="1/2", **OF)
    (verdict,) = settle([claim], measured, {} if measured else {"c": "absent"})
    text = json.dumps(settled_to_json(verdict), allow_nan=False)
    assert settled_from_json(json.loads(text)) == verdict


def test_relations_saved_under_their_former_kind_are_read() -> None:
    (verdict,) = settle([dataclasses.replace(CLAIM, kind="relation")], {"rate": exact(0.7)}, {})
    fields = settled_to_json(verdict)
    assert fields["kind"] == "relation"
    assert settled_from_json(fields | {"kind": "shape"}) == verdict
    assert settled_from_json(fields | {"kind": "number"}).claim.kind == "number"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "guess"}, "kind='guess' of claim 'c' must be one of"),
        ({"why": ""}, "why of claim 'c' must not be empty"),
        ({"n": 0}, "n=0 of claim 'c' must be at least 1"),
        ({"origin": "folklore"}, "origin='folklore' of claim 'c' must be one of"),
        ({"origin": "published", "printed": "0.75"}, "link of claim 'c' must not be empty"),
        (OF, "printed of claim 'c' must not be empty"),
        ({"kind": "relation", **OF}, "printed of claim 'c' must not be empty"),
        ({"kind": "identity", **OF}, "printed of claim 'c' must not be empty"),
        ({"link": "arXiv 2209.10652"}, "link='arXiv 2209.10652' of claim 'c' must start with"),
    ],
)
def test_claim_checks_itself(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CLAIM, **change)


def test_intervals_check_themselves() -> None:
    with pytest.raises(ValueError, match="tol=-1 must not be negative"):
        near(0.0, -1)
    with pytest.raises(ValueError, match="low=2 must not be greater than high=1"):
        between(2, 1)


def test_a_source_gives_its_claims_what_they_share() -> None:
    given = ("relation", "all seeds", 8, "a relation", "On text, ")
    paper = ClaimSource("a paper", *given, printed="it is so, says the text", **OF)
    assert paper.claim("c", "it is so", at_least(0), section="Fig. 2") == Claim(
        id="c",
        source="a paper, Fig. 2",
        statement="On text, it is so",
        quantity="c",
        expected=at_least(0),
        why="a relation",
        kind="relation",
        selection="all seeds",
        n=8,
        printed="it is so, says the text",
        **OF,
    )
    own = {"quantity": "q", "kind": "number", "selection": "one", "n": 2, "explanation": "known"}
    own |= {"origin": "correction", "printed": "two", "link": ""}
    assert paper.claim("d", "it is so", near(1, 0), "digits", **own) == Claim(
        id="d",
        source="a paper",
        statement="On text, it is so",
        expected=near(1, 0),
        why="digits",
        **own,
    )


def test_the_defaults_of_a_source_are_those_of_a_claim() -> None:
    given = ("c", "It is so", near(1, 0), "digits")
    plain = Claim("c", "a paper", "It is so", "c", near(1, 0), "digits", origin="ours")
    source = ClaimSource("a paper", origin="ours")
    assert source.claim(*given) == plain
    with pytest.raises(ValueError, match="why of claim 'c' must not be empty"):
        source.claim(*given[:3])
    with pytest.raises(ValueError, match="n=0 of claim 'c' must be at least 1"):
        source.claim(*given, n=0)


def test_the_rest_is_unmet_for_one_reason() -> None:
    claims = [dataclasses.replace(CLAIM, id=name, quantity=name) for name in "abc"]
    claims.append(dataclasses.replace(CLAIM, id="d", quantity="a"))
    assert unmet_rest(claims, {"a": exact(1)}, "no head") == {"b": "no head", "c": "no head"}


def test_a_claim_prints_its_statement_and_what_it_has() -> None:
    claim = Claim(
        id="c",
        source="a book",
        statement="Two are two.",
        quantity="two",
        expected=near(2.0, 0.1),
        why="half a digit",
        origin="ours",
        null=Null("random", "any number"),
    )
    lines = str(claim).splitlines()
    assert lines[0] == "c: Two are two." and "  null: random: any number" in lines
    assert f"  allowed: two: {near(2.0, 0.1).text}" in lines and "explanation" not in str(claim)
    assert "null" in claim._repr_html_() and "any number" in claim._repr_html_()
