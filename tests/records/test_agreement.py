"""Numbers computed here beside the accepted ones: one word for each claim."""

import math

import numpy as np
import pytest
from scipy import stats

from circuitax.records.agreement import (
    AGREES,
    DIFFERS,
    NOT_REPEATED,
    OTHER,
    Here,
    compare,
    counts_here,
    settings_text,
    tolerance,
)
from circuitax.records.claims import ClaimSource, Expected, SettledClaim, at_least, at_most, near
from circuitax.records.estimate import Estimate, exact, mean_estimate

OURS = ClaimSource("our number", origin="ours")
BOTH_ENDS = near(1, 0.01)


def verdict(
    estimate: Estimate | None,
    found: str = "holds",
    expected: Expected = BOTH_ENDS,
    kind: str = "number",
) -> SettledClaim:
    reason = "no weights" if found == "not run" else ""
    return SettledClaim(OURS.claim("a", "s", expected, "why", kind=kind), found, estimate, reason)


def mean(value: float, half: float, n: int = 8) -> Estimate:
    return Estimate(value, value - half, value + half, n, "mean")


@pytest.mark.parametrize(
    ("here", "there", "word", "told"),
    [
        (exact(0.123401), exact(0.123399), AGREES, ""),
        (exact(0.1234), exact(0.5), AGREES, ""),  # below both what is allowed: one verdict
        (exact(0.992), exact(1.0), AGREES, ""),  # in what is allowed, both
        (exact(0.98), exact(1.0), DIFFERS, "apart 20 times"),
        (exact(0.98), exact(1.02), DIFFERS, "apart 39.2 times"),  # both fail, not alike
        (mean(1.0, 0.3), mean(1.49, 0.4), AGREES, ""),
        (mean(1.0, 0.3), mean(1.51, 0.4), DIFFERS, "apart 1.02 times"),
        (None, None, AGREES, ""),
        (None, exact(1.0), DIFFERS, "only in the accepted run"),
        (exact(1.0), None, DIFFERS, "only here"),
    ],
)
def test_words(here: Estimate | None, there: Estimate | None, word: str, told: str) -> None:
    found = compare(verdict(here), verdict(there), "")
    assert found.word == word and found.estimate is here
    assert told in found.told and bool(told) == bool(found.told)
    other = compare(verdict(here), verdict(there), "steps 3 for 9")
    assert other.word == (OTHER if word == DIFFERS else word)
    assert ("steps 3 for 9" in other.told) == (word == DIFFERS)


@pytest.mark.parametrize("limits", [at_least(0.5), at_most(0.5)])
def test_a_relation_is_repeated_where_both_are_beyond_one_end(limits: Expected) -> None:
    low, high = (verdict(mean(x, 0.01), expected=limits) for x in (0.1, 0.3))
    across = verdict(mean(0.52, 0.1), expected=limits)
    assert compare(low, high, "").word == compare(high, low, "").word == AGREES
    assert compare(low, across, "").word == DIFFERS


def test_fewer_seeds_are_no_reason_for_another_word() -> None:
    few = compare(verdict(mean(1.0, 0.3, 3), "undecided"), verdict(mean(1.2, 0.1)), "")
    assert few.word == AGREES


def test_what_was_not_measured_is_not_repeated() -> None:
    found = compare(verdict(None, "not run"), verdict(exact(1.0)), "steps 3 for 9")
    assert found == Here(NOT_REPEATED, None, "no weights")
    assert compare(verdict(exact(1.0)), verdict(None, "not run"), "").word == NOT_REPEATED


def test_tolerance_is_that_of_a_difference_of_independent_means() -> None:
    assert tolerance(mean(1.0, 0.3), mean(1.0, 0.4)) == pytest.approx(0.5)
    assert tolerance(exact(-20.0), exact(3.0)) == pytest.approx(0.02)


def test_one_replicate_is_held_against_the_prediction_interval_of_the_others() -> None:
    values = np.array([0.3, 1.1, 0.7, 2.4, 1.9])
    alone = Estimate(3.0, -math.inf, math.inf, 1, "mean")
    want = stats.t.ppf(0.975, 4) * values.std(ddof=1) * math.sqrt(1 + 1 / 5)
    for pair in ((alone, mean_estimate(values)), (mean_estimate(values), alone)):
        assert tolerance(*pair) == pytest.approx(want)
    assert tolerance(alone, alone) == math.inf


def test_means_of_one_law_agree_and_means_of_two_laws_differ() -> None:
    rng = np.random.default_rng(3)
    draws = [(rng.normal(5, 2, 5), rng.normal(5, 2, 8)) for _ in range(2000)]

    def share(shift: float) -> float:
        words = [
            compare(verdict(mean_estimate(a)), verdict(mean_estimate(b - shift)), "").word
            for a, b in draws
        ]
        return words.count(AGREES) / len(words)

    # Held against 1, half of all means of 1 lie on either side, so that no side decides.
    assert share(0) > 0.95
    assert share(8) < 0.1


@pytest.mark.parametrize(("kind", "word"), [("identity", AGREES), ("number", DIFFERS)])
def test_rounding_that_an_identity_leaves_may_move_within_its_limit(kind: str, word: str) -> None:
    limits = Expected(3e-7, 1e-3, "3e-7 to 1e-3")
    here, there = (verdict(exact(x), expected=limits, kind=kind) for x in (2.9e-7, 3.4e-7))
    assert compare(here, there, "").word == word


def test_settings_are_named_up_to_three() -> None:
    here, there = {"a.x": 1, "b": 2, "c": None}, {"a.x": 1, "b": 3, "d": "w" * 40}
    assert settings_text(here, there) == f"b 2 for 3, d none for {'w' * 21}..."
    many = settings_text(dict.fromkeys("abcde", 1), dict.fromkeys("abcde", 2))
    assert many == "a 1 for 2, b 1 for 2, c 1 for 2 and 2 more"
    assert settings_text(here, here) == ""


def test_counts() -> None:
    found = [Here(word, None, "") for word in (AGREES, NOT_REPEATED, AGREES, OTHER)]
    assert counts_here(found) == "2 agree here, 1 at other settings, 1 not repeated"
