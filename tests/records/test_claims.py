"""Verdicts: what holds, what fails, what is out of reach, and what must not pass silently."""

import dataclasses
import json
import math

import pytest

from circuitax.records.claims import (
    Claim,
    ClaimSource,
    at_least,
    at_most,
    between,
    near,
    settle,
    unmet_rest,
    verdict_from_json,
    verdict_to_json,
)
from circuitax.records.estimate import Estimate, exact

CLAIM = Claim("c", "S0 Ex. 26", "It is so", "rate", near(0.75, 0.02), "two digits printed", n=4)


def estimate(value: float, low: float, high: float, n: int = 4) -> Estimate:
    return Estimate(value, low, high, n, "mean")


@pytest.mark.parametrize(
    ("expected", "measured", "admitted"),
    [
        (near(0.75, 0.02), estimate(0.765, 0.7, 0.8), True),  # its value alone counts
        (near(0.75, 0.02, whole_interval=True), estimate(0.765, 0.7, 0.8), False),
        (near(0.75, 0.02), estimate(0.78, 0.74, 0.82), False),
        (between(1, 2), exact(2.0), True),
        (between(1, 2), exact(2.0001), False),
        (at_least(0.5), estimate(0.6, 0.45, 0.75), False),  # a relation: the interval reaches below
        (at_least(0.5), estimate(0.6, 0.51, 0.75), True),
        (at_least(0.5, whole_interval=False), estimate(0.6, 0.45, 0.75), True),
        (at_most(0.5), estimate(0.4, 0.3, 0.49), True),
        (at_most(0.5), estimate(0.4, 0.3, 0.51), False),
        (near(0.0, 1.0), exact(math.nan), False),
    ],
)
def test_expected_admits(expected, measured: Estimate, admitted: bool) -> None:
    assert expected.admits(measured) is admitted


def test_settle_gives_the_three_verdicts() -> None:
    claims = [dataclasses.replace(CLAIM, id=name) for name in ("holds", "unmet")]
    claims.append(dataclasses.replace(CLAIM, id="fails", quantity="other", explanation="known"))
    claims.append(dataclasses.replace(CLAIM, id="few", n=5))
    measured = {"rate": estimate(0.75, 0.7, 0.8), "other": estimate(0.5, 0.4, 0.6)}
    found = {v.claim.id: v for v in settle(claims, measured, {"unmet": "no head exists"})}
    assert found["holds"].verdict == "holds"
    assert (found["fails"].verdict, found["fails"].reason) == ("fails", "known")
    assert found["unmet"].verdict == "out of reach"
    assert found["unmet"].reason == "no head exists"
    assert (found["few"].verdict, found["few"].reason) == ("out of reach", "n = 4 of 5 planned")


def test_a_claim_cannot_be_forgotten() -> None:
    with pytest.raises(ValueError, match=r"claim 'c' needs measured\['rate'\] or unmet\['c'\]"):
        settle([CLAIM], {"loss": exact(1.0)}, {})
    with pytest.raises(ValueError, match=r"unmet names \['d'\]"):
        settle([CLAIM], {"rate": exact(1.0)}, {"d": "why"})


@pytest.mark.parametrize("measured", [{"rate": estimate(0.6, -math.inf, 0.7)}, {}])
def test_json_round_trip(measured: dict[str, Estimate]) -> None:
    claim = dataclasses.replace(CLAIM, expected=at_least(0.5))
    (verdict,) = settle([claim], measured, {} if measured else {"c": "absent"})
    text = json.dumps(verdict_to_json(verdict), allow_nan=False)
    assert verdict_from_json(json.loads(text)) == verdict


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "guess"}, "kind='guess' of claim 'c' must be one of"),
        ({"why": ""}, "why of claim 'c' must not be empty"),
        ({"n": 0}, "n=0 of claim 'c' must be at least 1"),
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
    paper = ClaimSource("a paper", "shape", "all seeds", 8, "a relation", "On text, ")
    assert paper.claim("c", "it is so", at_least(0), section="Fig. 2") == Claim(
        id="c",
        source="a paper, Fig. 2",
        statement="On text, it is so",
        quantity="c",
        expected=at_least(0),
        why="a relation",
        kind="shape",
        selection="all seeds",
        n=8,
    )
    own = {"quantity": "q", "kind": "number", "selection": "one", "n": 2, "explanation": "known"}
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
    plain = Claim("c", "a paper", "It is so", "c", near(1, 0), "digits")
    assert ClaimSource("a paper").claim(*given) == plain
    with pytest.raises(ValueError, match="why of claim 'c' must not be empty"):
        ClaimSource("a paper").claim(*given[:3])
    with pytest.raises(ValueError, match="n=0 of claim 'c' must be at least 1"):
        ClaimSource("a paper").claim(*given, n=0)


def test_the_rest_is_unmet_for_one_reason() -> None:
    claims = [dataclasses.replace(CLAIM, id=name, quantity=name) for name in "abc"]
    claims.append(dataclasses.replace(CLAIM, id="d", quantity="a"))
    assert unmet_rest(claims, {"a": exact(1)}, "no head") == {"b": "no head", "c": "no head"}
