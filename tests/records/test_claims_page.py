"""The claims page counts what could have failed and hides nothing that did."""

import dataclasses
import re

import pytest

from circuitax.records import papers
from circuitax.records.claims import Claim, at_least, near, settle
from circuitax.records.claims_page import headline, render_claims_page
from circuitax.records.claims_table import ClaimRow, measured_text
from circuitax.records.estimate import Estimate, exact

SOURCED = {"origin": "published", "link": papers.TOY_MODELS, "printed": "1.0"}


def row(name: str, value: float | Estimate, kind: str = "number", **changes) -> ClaimRow:
    unmet, not_run = changes.pop("unmet", None), changes.pop("not_run", None)
    claim = Claim(name, "S0 | 2", f"about {name}", "q", near(1.0, 0.1), "why so", kind, **SOURCED)
    claim = dataclasses.replace(claim, **changes)
    estimate = value if isinstance(value, Estimate) else exact(value)
    reasons = [{name: why} if why else {} for why in (unmet, not_run)]
    (verdict,) = settle([claim], {"q": estimate}, *reasons)
    return ClaimRow(verdict, "toy", "quick", "abc", "../toy/abc", "../toy.png", "../toy.py#L7")


ROWS = [
    row("good", 1.0),
    row("bad", Estimate(2.0, 1.9, 2.1, 8, "mean"), explanation="the paper may round."),
    row("worse", 3.0, link="https://example.org/other"),
    row("open", Estimate(1.05, 0.8, 1.3, 8, "mean"), "shape", printed="it is near"),
    row("lacking", 1.0, unmet="no such head"),
    row("far", 1.0, not_run="no weights"),
    row("further", 1.0, not_run="no weights"),
    row("slip", 1.0, origin="correction", link=""),
    row("algebra", 1.0, "identity", origin="theorem", link=""),
    row("guess", 1.0, origin="ours", link=""),
    row("seen", 3.0, origin="ours", link="", explanation="Tested: it is 3."),
]
PAGE = render_claims_page(
    ROWS, "made by", headlines="| results |", changes="| a table |", pilots="| looked at |"
)


def part(title: str) -> str:
    (found,) = [text for text in PAGE.split("\n## ") if text.startswith(title)]
    return found


def test_headline_counts_published_numbers_and_relations_apart() -> None:
    text = headline(ROWS)
    assert "Of 6 published numbers: 1 hold, 2 fail, 1 absent, 2 not run." in text
    assert (
        "Of 1 published relations: 1 undecided. 0 of those that hold, hold on a bare sign." in text
    )
    sign = row("sign", Estimate(0.3, 0.1, 0.5, 8, "mean"), expected=at_least(0))
    assert "1 of those that hold, hold on a bare sign." in headline([*ROWS, sign])
    assert "| results |" in part("Figures and results")
    assert "| our corrections of sources | 1 | 1 | 0 | 0 | 0 | 0 |" in PAGE
    assert "| theorems and identities, true by proof | 1 | 1 | 0 | 0 | 0 | 0 |" in PAGE


def test_the_first_screen_has_a_line_for_each_claim_with_its_figure() -> None:
    line = "- [`bad`](#claim-bad) about bad: 2 [1.9, 2.1], allowed 1 ± 0.1 ([figure](../toy.png))"
    assert line in part("What fails")
    assert "`open`" in part("What is undecided") and "`lacking`" in part("What lacks its prec")
    wrong = part("What we think is wrong")
    # `bad` is sampled: a failure of ours to see it is no slip of the paper.
    assert "`slip`" in wrong and "`worse`" in wrong and "`bad`" not in wrong
    assert "`good`" in part("What holds") and "`guess`" not in part("What holds")


def test_every_claim_is_once_in_the_table_of_its_paper() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| <a ")]
    for item in ROWS:
        name = item.verdict.claim.id
        (line,) = [line for line in rows if f'"></a>`{name}` ' in line]
        assert line.startswith(f'| <a id="claim-{name}"></a>')
        assert "why so" in line and "../toy.py#L7" in line and "[abc](../toy/abc)" in line
        assert "S0 \\| 2" in line, "a bar in a text must not end the cell"
        assert line.replace("\\|", "").count("|") == 8
    assert "`good`" in part("Toy Models of Superposition") and "| 1.0 | 1 |" in PAGE
    assert "`worse`" in part("Other papers") and "**fails**" in part("Other papers")
    assert "`slip`" in part("Our corrections") and "`algebra`" in part("Theorems")


def test_disagreements_are_explained_by_hypotheses() -> None:
    text = part("Where we disagree")
    assert "Printed: 1.0. Hypothesis: the paper may round.\n" in text
    # A test is no hypothesis, and says so itself.
    assert "`seen`" in text and ". Printed: 1.0. Tested: it is 3.\n" in text
    assert "`worse`" in text and "Hypothesis: none yet." in text
    assert "Reason: no such head." in text and "`slip`" in text and "`good`" not in text
    assert "- `far`, `further`: no weights" in part("Why claims were not run")
    assert part("Changes of claims").endswith("| a table |\n")
    assert part("Pilots").rstrip().endswith("| looked at |")


def test_the_page_opens_with_a_digest_whose_links_lead_to_sections() -> None:
    digest = PAGE[: PAGE.index("| class |")]
    lines = [line for line in digest.splitlines() if line.startswith("- ")]
    assert lines[0].startswith("- **Holds**: [1 of 7 published statements](#what-holds-of-what-is")
    assert lines[1].endswith(", 2 numbers and 0 relations.") and "**Fails**: [2 of 7" in lines[1]
    assert "[1 of 7 published statements](#what-lacks-its-precondition" in lines[3]
    assert "1 corrections of ours that hold, and 1 printed statements" in lines[5]
    assert "(#other-papers) 1 fail" in lines[6] and len(lines) == 7
    titles = {line[3:] for line in PAGE.splitlines() if line.startswith("## ")}
    kept = {
        "".join(c for c in t.lower() if c.isalnum() or c in "- ").replace(" ", "-") for t in titles
    }
    assert set(re.findall(r"\]\(#([^)]*)\)", digest)) <= kept


def test_equal_ids_are_refused() -> None:
    with pytest.raises(ValueError, match=r"claim ids \['good'\] are used twice"):
        render_claims_page([ROWS[0], ROWS[0]], "c")


def test_measured_text() -> None:
    assert measured_text(exact(0.25)) == "0.25"
    assert measured_text(Estimate(0.75234, 0.7, 0.8, 3, "mean")) == "0.7523 [0.7, 0.8]"
    assert measured_text(None) == "-"
