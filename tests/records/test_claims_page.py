"""The pages of claims count what could have failed and hide nothing that did."""

import dataclasses
import re

import numpy as np
import pytest

from circuitax.records import papers
from circuitax.records.claim_texts import ClaimRow, measured_text, verdict_lines
from circuitax.records.claims import HOLDS, Claim, Expected, at_least, near, settle
from circuitax.records.claims_page import (
    headline,
    render_claims_page,
    render_details,
    render_tables,
)
from circuitax.records.estimate import Estimate, exact
from circuitax.records.nulls import Null

SOURCED = {"origin": "published", "link": papers.TOY_MODELS, "printed": "1.0"}


def row(name: str, value: float | Estimate, kind: str = "number", **changes) -> ClaimRow:
    unmet, not_run = changes.pop("unmet", None), changes.pop("not_run", None)
    draws = changes.pop("draws", ())
    claim = Claim(name, "S0 | 2", f"about {name}", "q", near(1.0, 0.1), "why so", kind, **SOURCED)
    claim = dataclasses.replace(claim, **changes)
    estimate = value if isinstance(value, Estimate) else exact(value)
    reasons = [{name: why} if why else {} for why in (unmet, not_run)]
    (verdict,) = settle([claim], {"q": estimate}, *reasons, {"permuted": {"q": draws}})
    return ClaimRow(verdict, "toy", "quick", "abc", "../toy/abc", "../toy.png", "../toy.py#L7")


ROWS = [
    row("good", 1.0),
    row("bad", Estimate(2.0, 1.9, 2.1, 8, "mean"), explanation="the paper may round."),
    row("worse", 3.0, link="https://example.org/other"),
    row("open", Estimate(1.05, 0.8, 1.3, 8, "mean"), "relation", printed="it is near"),
    row("lacking", 1.0, unmet="no such head"),
    row("far", 1.0, not_run="no weights"),
    row("further", 1.0, not_run="no weights"),
    row("slip", 1.0, origin="correction", link=""),
    row("algebra", 1.0, "identity", origin="theorem", link=""),
    row("guess", 1.0, "relation", origin="ours", link=""),
    row("seen", 3.0, origin="ours", link="", explanation="Tested: it is 3."),
]
PAGE = render_claims_page(ROWS, "made by", headlines="| results |")
DETAILS = render_details(ROWS)


def part(title: str, page: str = PAGE) -> str:
    (found,) = [text for text in page.split("\n## ") if text.startswith(title)]
    return found


def test_headline_counts_published_numbers_and_relations_apart() -> None:
    text = headline(ROWS, {})
    assert "Of 6 published numbers: 1 hold, 2 fail, 1 absent, 2 not run." in text
    assert (
        "Of 1 published relations: 1 undecided. 0 of those that hold, hold on a bare sign." in text
    )
    sign = row("sign", Estimate(0.3, 0.1, 0.5, 8, "mean"), expected=at_least(0))
    assert "1 of those that hold, hold on a bare sign." in headline([*ROWS, sign], {})
    assert "| results |" in part("Figures and results")
    assert "| our corrections of sources | 1 | 1 | 0 | 0 | 0 | 0 | 0 |" in PAGE
    assert "| theorems and identities, true by proof | 1 | 1 | 0 | 0 | 0 | 0 | 0 |" in PAGE


CHANCE = {"null": Null("printed number", "one of four", 0.25)}
SHUFFLED = {"null": Null("permuted", "labels are shuffled")}


@pytest.mark.parametrize(
    ("expected", "is_sign"),
    [(at_least(0), True), (at_least(0.05), True), (at_least(0.1), False), (near(0.3, 0.25), False)],
)
def test_a_limit_in_the_interval_of_its_null_is_a_bare_sign(
    expected: Expected, is_sign: bool
) -> None:
    # Values from -0.1 to 0.1, of which 5 to 95 % lie within 0.09, and none of which holds.
    draws = [Estimate(x, x - 0.2, x + 0.2, 8, "mean") for x in np.linspace(-0.1, 0.1, 101)]
    measured = Estimate(0.3, 0.2, 0.4, 8, "mean")
    one = row("one", measured, expected=expected, null=Null("permuted", "so"), draws=draws)
    assert one.settled.verdict == HOLDS and one.settled.on_bare_sign is is_sign
    assert f" {is_sign:d} of those that hold, hold on a bare sign." in headline([one], {})


def test_headline_counts_nulls_and_moves_of_what_is_published() -> None:
    rows = [
        *ROWS,
        row("chance", 1.0, **CHANCE),
        row("drawn", 1.0, draws=[0.2, 0.3], **SHUFFLED),
        row("anyway", 1.0, draws=[0.2, 1.0], **SHUFFLED),
        row("proved", 1.0, "identity"),
        row("kept", 1.0, null=Null("not on record", "it needs the weights at the start")),
    ]
    moves = {
        "chance": ("undecided", "holds"),
        "drawn": ("holds", "fails", "holds"),
        "bad": ("holds", "undecided", "fails"),
        "guess": ("fails", "holds"),  # not published
    }
    text = headline(rows, moves)
    assert (
        "Of 5 that hold, 1 have a null that does not, 1 are numbers that a random answer misses, "
        "1 are true by proof, 1 need a null that is not on record, 1 declare none yet; 1 more "
        "would hold anyway. 3 moved after a look at a verdict: 1 came to hold, 1 hold no more."
        in text
    )
    page = render_claims_page(rows, "made by")
    assert "`anyway`" in part("What would hold anyway", page)
    assert "`anyway`" not in part("What holds", page)


def test_the_row_of_a_claim_shows_what_its_null_gives() -> None:
    rows = [
        row("chance", 1.0, explanation="seen to hold", **CHANCE),
        row("drawn", 1.0, draws=[0.2, 0.3, 0.9], **SHUFFLED),
        row("lost", 1.0, draws=[None], **SHUFFLED),
        row("bare", 1.0),
        row("proved", 1.0, "identity"),
    ]
    lines = [line for line in render_details(rows)["toy-models"].splitlines() if "| <a" in line]
    cells = [line.replace("\\|", "").split(" | ")[3] for line in lines]
    assert cells == [
        "printed number: tolerance 0.13 of the way to a random answer, 0.25",
        "permuted: 0.3 [0.21, 0.84], 1 of 3 would hold",
        "permuted: 0 of 1 would hold",
        "not declared",
        "theorem",
    ]
    assert "<b>null</b> labels are shuffled<br>" in lines[1] and "planned n" not in lines[1]
    fewer = render_details([row("fewer", 1.0, n=5)])["toy-models"]
    assert "<b>planned n</b> 5" in fewer
    assert "<b>about it</b> seen to hold" in lines[0] and "about it" not in lines[1]
    disagreed = part("Where we disagree", render_details(rows)["toy-models"])
    assert "`drawn`" in disagreed and "Reason: it would hold in 1 of 3 draws" in disagreed


def test_lists_have_a_line_for_each_claim_with_its_row_and_its_figure() -> None:
    line = (
        '- <a id="claim-bad"></a>[`bad`](claims/toy-models.md#claim-bad) about bad: 2 [1.9, 2.1], '
        "allowed 1 ± 0.1 ([figure](../toy.png))"
    )
    assert line in part("What fails").splitlines()
    assert "`open`" in part("What is undecided") and "`lacking`" in part("What lacks its prec")
    wrong = part("What we think is wrong")
    # `bad` is sampled: a failure of ours to see it is no slip of the paper.
    assert "`slip`" in wrong and "`worse`" in wrong and "`bad`" not in wrong
    assert "`good`" in part("What holds") and "`guess`" not in part("What holds")
    assert "- [`far`](#claim-far), [`further`](#claim-further): no weights" in part("Why claims")
    rest = part("All other claims")
    assert "<summary>5 claims</summary>" in rest, "guess, seen, algebra, far and further"
    assert "claims/ours-numbers.md#claim-seen) **fails**: 3\n" in rest
    assert "claims/toy-models.md#claim-far) **not run**: 1\n" in rest


def test_every_claim_has_its_place_on_the_summary_once() -> None:
    places = re.findall('<a id="claim-([^"]+)"></a>', PAGE)
    assert sorted(places) == sorted(item.settled.claim.id for item in ROWS)


def test_every_claim_is_once_in_the_table_of_its_paper() -> None:
    every = "\n".join(DETAILS.values())
    rows = [line for line in every.splitlines() if line.startswith("| <a ")]
    assert len(rows) == len(ROWS)
    for item in ROWS:
        name = item.settled.claim.id
        (line,) = [line for line in rows if f'"></a>`{name}` ' in line]
        assert line.startswith(f'| <a id="claim-{name}"></a>')
        assert "[toy](../toy.png) · [abc](../toy/abc) · [code](../toy.py#L7)" in line
        assert "why so" in line
        assert "S0 \\| 2" in line, "a bar in a text must not end the cell"
        assert line.replace("\\|", "").count("|") == 8
        # The summary leads to the page that has the row.
        assert re.search(rf"\(claims/([\w-]+)\.md#claim-{name}\)", PAGE)[1] in {
            page for page, text in DETAILS.items() if line in text
        }
    assert "`good`" in part("Toy Models of Superposition", DETAILS["toy-models"])
    other = part("Other papers", DETAILS["sources"])
    assert "`worse`" in other and "**fails**" in other
    shared = DETAILS["corrections-and-theorems"]
    assert "`slip`" in part("Our corrections", shared) and "`algebra`" in part("Theorems", shared)
    assert "`guess`" in part("Our own statements", DETAILS["ours"])
    assert "`seen`" in part("Our own reference numbers", DETAILS["ours-numbers"])
    kin = row("kin", 1.0, "relation", origin="ours", link="", cites=(papers.Paper.FRAMEWORK,))
    assert list(render_details([kin])) == ["ours-beside"]
    assert set(DETAILS) == {
        *("toy-models", "sources", "corrections-and-theorems", "ours", "ours-numbers")
    }, "no page without a claim"
    assert all("[summary](../CLAIMS.md)" in page for page in DETAILS.values())


def test_disagreements_are_explained_by_hypotheses() -> None:
    text = part("Where we disagree", DETAILS["toy-models"])
    assert (
        "[`bad`](#claim-bad)" in text and "Printed: 1.0. Hypothesis: the paper may round." in text
    )
    assert "Reason: no such head." in text and "`good`" not in text
    # A test is no hypothesis, and says so itself.
    numbers = part("Where we disagree", DETAILS["ours-numbers"])
    assert "`seen`" in numbers and ". Printed: 1.0. Tested: it is 3.\n" in numbers
    assert "Hypothesis: none yet." in part("Where we disagree", DETAILS["sources"])
    assert "`slip`" in part("Where we disagree", DETAILS["corrections-and-theorems"])
    assert "Where we disagree" not in DETAILS["ours"], "what holds needs no explanation"


def test_tables_beside_the_claims_have_pages() -> None:
    pages = render_tables("| new |", "| old |", "| set |", "| looked at |", "| commits |")
    assert part("Changes", pages["changes"]).endswith("| new |\n")
    assert part("Changes", pages["earlier-changes"]).endswith("| old |\n")
    assert part("Settings", pages["settings"]).endswith("| set |\n")
    assert part("Pilots", pages["settings"]).endswith("| looked at |\n")
    assert pages["code"].endswith("| commits |\n")
    assert all("(../CLAIMS.md)" in page for page in pages.values())


def test_the_page_opens_with_a_digest_whose_links_lead_to_sections_and_tables() -> None:
    digest = PAGE[: PAGE.index("| class |")]
    lines = [line for line in digest.splitlines() if line.lstrip().startswith("- ")]
    assert lines[0].startswith("- **Holds**: [1 of 7 published statements](#what-holds-of-what-is")
    assert lines[1].endswith(", 2 numbers and 0 relations.") and "**Fails**: [2 of 7" in lines[1]
    assert "[1 of 7 published statements](#what-lacks-its-precondition" in lines[3]
    assert "1 corrections of ours that hold, and 1 printed statements" in lines[5]
    assert "(claims/sources.md#other-papers): 1 fail;" in lines[8] and len(lines) == 15
    assert slugs(PAGE) >= set(re.findall(r"\]\(#([^)]*)\)", digest))
    tables = re.findall(r"\]\(claims/([\w-]+)\.md#([^)]*)\)", digest)
    assert len(tables) == 6
    for page, name in tables:
        assert name in slugs(DETAILS[page])
        # The names of the tables when all of them stood on one page.
        assert f'<a id="{name}"></a>' in digest


def slugs(page: str) -> set[str]:
    titles = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    return {
        "".join(c for c in t.lower() if c.isalnum() or c in "- ").replace(" ", "-") for t in titles
    }


def test_equal_ids_are_refused() -> None:
    with pytest.raises(ValueError, match=r"claim ids \['good'\] are used twice"):
        render_claims_page([ROWS[0], ROWS[0]], "c")


def test_a_verdict_is_told_with_its_number() -> None:
    claims = [
        Claim(name, "S", "It is one.", name, near(1, 0.2), "why", n=n, origin="ours")
        for name, n in (("good", 2), ("few", 5), ("gone", 1))
    ]
    measured = {
        "good": Estimate(1.0, 0.95, 1.05, 8, "t"),
        "few": Estimate(1.05, 0.9, 1.2, 3, "t"),
    }
    found = settle(claims, measured, {"gone": "no head formed"})
    assert verdict_lines(found) == [
        "few: 1.05 [0.9, 1.2], wanted 1 ± 0.2: undecided, n = 3 of 5",
        "gone: absent: no head formed",
        "good: 1 [0.95, 1.05], wanted 1 ± 0.2: holds, n = 8",
    ]
    assert verdict_lines(found, most=1)[1:] == ["and 1 hold, 1 absent more"]


def test_measured_text() -> None:
    assert measured_text(exact(0.25)) == "0.25"
    assert measured_text(Estimate(0.75234, 0.7, 0.8, 3, "mean")) == "0.7523 [0.7, 0.8]"
    assert measured_text(None) == "-"
