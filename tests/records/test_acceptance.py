"""Headline statements of the papers: read from the acceptance page, and how each fared."""

import dataclasses

import pytest

from circuitax.records.acceptance import outcome_table, results_of
from circuitax.records.claims import VERDICTS, Claim, SettledClaim, near

PAGE = """
| result | must show | claims |
|---|---|---|
| O1 | all of it | `toy: a, b` `other: c` |
| O2 | a part | `toy: a, d, e` not tried: the rest, with larger models |
| O3 | nothing yet | not tried: needs a model of 13B |
| a check | exact | `toy: a` |
"""
CLAIM = Claim("a", "a paper", "It is so", "q", near(1, 0), "why", origin="ours")


def verdicts(**given: str) -> dict[str, SettledClaim]:
    assert set(given.values()) <= set(VERDICTS)
    return {
        name: SettledClaim(dataclasses.replace(CLAIM, id=name), verdict, None, "")
        for name, verdict in given.items()
    }


def test_rows_name_their_claims_or_why_there_are_none() -> None:
    first, second, third = results_of(PAGE)
    assert first.claims == (("toy", "a"), ("toy", "b"), ("other", "c")) and not first.not_tried
    assert second.not_tried == "the rest, with larger models" and len(second.claims) == 3
    assert third.claims == () and third.name == "O3"
    with pytest.raises(ValueError, match="row O4 needs a claim"):
        list(results_of("| O4 | something | soon |"))


def test_outcomes() -> None:
    held = verdicts(a="holds", b="holds", c="not run", d="fails", e="absent")
    lines = outcome_table(PAGE, held).splitlines()[2:]
    assert lines[0].endswith("| **held** (2 of 3 claims, the others not run) |")
    wanted = (
        "1 hold, 1 fails, 1 absent; fails: [`d`](#claim-d); absent: [`e`](#claim-e); "
        "not tried: the rest, with"
    )
    assert wanted.replace("1 fails", "1 fail") in lines[1]
    assert lines[2].endswith("| not tried: needs a model of 13B |")
    table = outcome_table(PAGE, verdicts(c="undecided"))
    assert table.count("1 undecided; undecided: [`c`](#claim-c)") == 1
    assert "no run yet" in outcome_table(PAGE, {})
