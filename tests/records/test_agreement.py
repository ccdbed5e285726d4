"""Two runs of one specification: equal as printed, within noise, or further apart, in words."""

import math

import pytest

from circuitax.records.agreement import MORE, NOISE, SAME, agreement_text, compare, tolerance
from circuitax.records.claims import ClaimSource, Verdict, at_most, near
from circuitax.records.estimate import Estimate, exact

OURS = ClaimSource("our number", origin="ours")


def verdict(name: str, estimate: Estimate | None, found: str = "holds") -> Verdict:
    return Verdict(OURS.claim(name, "s", near(1, 9), "why"), found, estimate, "")


def mean(value: float, half: float) -> Estimate:
    return Estimate(value, value - half, value + half, 8, "mean")


@pytest.mark.parametrize(
    ("here", "there", "kind", "words"),
    [
        (exact(0.123401), exact(0.123399), SAME, "0.1234 here, 0.1234 accepted"),
        (exact(0.12340), exact(0.12350), NOISE, "0.1235 accepted"),  # 8e-4 of its size
        (exact(0.1234), exact(0.1239), MORE, "apart 4.04 times what noise explains"),
        (mean(2.0, 0.3), mean(2.49, 0.4), NOISE, "2.49 [2.09, 2.89] accepted"),
        (mean(2.0, 0.3), mean(2.51, 0.4), MORE, "apart 1.02 times"),
        (exact(0.0), exact(0.0), SAME, "0 here"),
        (Estimate(1.0, -math.inf, math.inf, 1, "mean"), mean(5.0, 0.1), NOISE, "[-inf, inf] here"),
        (None, exact(1.0), MORE, "- here, 1 accepted"),
        (None, None, SAME, "- here"),
    ],
)
def test_kinds(here: Estimate | None, there: Estimate | None, kind: str, words: str) -> None:
    (found,) = compare([verdict("a", here)], [verdict("a", there)])
    assert found.kind == kind and words in found.text


def test_another_verdict_is_more_than_noise_and_new_claims_are_not_compared() -> None:
    (found,) = compare(
        [verdict("a", exact(1.0), "fails"), verdict("new", exact(1.0))],
        [verdict("b", exact(1.0)), verdict("a", exact(1.0))],
    )
    assert found == ("a", MORE, "1 here, 1 accepted; verdict holds became fails")


def test_tolerance_is_that_of_a_difference_of_independent_means() -> None:
    assert tolerance(mean(1.0, 0.3), mean(1.0, 0.4)) == pytest.approx(0.5)
    assert tolerance(exact(-20.0), exact(3.0)) == pytest.approx(0.02)


@pytest.mark.parametrize(("kind", "found"), [("identity", NOISE), ("number", MORE)])
def test_rounding_that_an_identity_leaves_may_move_within_its_limit(kind: str, found: str) -> None:
    claim = OURS.claim("a", "s", at_most(1e-4), "why", kind=kind)
    here, there = (Verdict(claim, "holds", exact(left), "") for left in (2.9e-7, 3.4e-7))
    assert compare([here], [there])[0].kind == found


def test_the_text_counts_and_names_what_differs_more() -> None:
    found = compare(
        [verdict("a", exact(1.0)), verdict("b", exact(3.0))],
        [verdict("a", exact(1.0)), verdict("b", exact(2.0))],
    )
    text = agreement_text({"toy": found}, {"x": "no accepted run", "y": "no accepted run"})
    assert text.splitlines() == [
        "against the accepted runs: 2 claims, 1 equal as printed, 0 within noise, 1 differ more",
        "  toy: b: 3 here, 2 accepted: apart 333 times what noise explains",
        "not compared, no accepted run: x, y",
    ]
    assert agreement_text({}, {}) == ""
