"""The claims page counts what could have failed and hides nothing that did."""

import pytest

from circuitax.records.claims import Claim, near, settle
from circuitax.records.claims_page import ClaimRow, headline, measured_text, render_claims_page
from circuitax.records.estimate import Estimate, exact


def row(name: str, value: float, kind: str = "number", **changes) -> ClaimRow:
    unmet = changes.pop("unmet", None)
    claim = Claim(
        name,
        "S0 | 2",
        f"about {name}",
        "q",
        near(1.0, 0.1),
        "why so",
        kind,
        origin="ours",
        **changes,
    )
    (verdict,) = settle([claim], {"q": exact(value)}, {}, {name: unmet} if unmet else {})
    return ClaimRow(verdict, "toy", "quick", "abc", "../toy/abc")


ROWS = [
    row("good", 1.0),
    row("bad", 2.0, explanation="the paper rounds"),
    row("worse", 3.0),
    row("far", 1.0, unmet="no such head"),
    row("further", 1.0, unmet="no such head"),
    row("algebra", 1.0, "identity"),
]


def test_headline_leaves_identities_out() -> None:
    text = headline(ROWS)
    assert "Of 5 claims: 1 hold, 2 fail, 2 not run" in text
    assert "1 identities, of which 1 hold" in text


def test_page_has_every_claim_once_with_its_verdict() -> None:
    page = render_claims_page(ROWS, "python -m experiments.accept")
    lines = {line.split("`")[1]: line for line in page.split("\n") if line.startswith("| `")}
    table = page.split("## Why")[0]
    for item in ROWS:
        name = item.verdict.claim.id
        assert table.count(f"| `{name}` |") == 1
        assert f"`{name}` | why so" in page
        assert name in lines
    assert "| **fails** |" in table
    assert "- `bad`: the paper rounds" in page
    assert "- `worse`: no explanation yet." in page
    assert "- `far`, `further`: no such head" in page
    assert "S0 \\| 2" in page  # a bar in a text must not end the cell
    assert "[toy/abc](../toy/abc)" in table


def test_equal_ids_are_refused() -> None:
    with pytest.raises(ValueError, match=r"claim ids \['good'\] are used twice"):
        render_claims_page([ROWS[0], ROWS[0]], "c")


def test_measured_text() -> None:
    assert measured_text(exact(0.25)) == "0.25"
    assert measured_text(Estimate(0.75234, 0.7, 0.8, 3, "mean")) == "0.7523 [0.7, 0.8]"
    assert measured_text(None) == "-"
