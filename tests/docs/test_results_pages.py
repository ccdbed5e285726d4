"""The tracked pages of results say what the accepted runs say, and lead to files that exist."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
from circuitax.records.acceptance import outcome, results_of
from circuitax.records.claims import SettledClaim

from circuitax.config.catalogue import discover
from circuitax.lab.runs import ACCEPTED, verdicts

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
SUMMARY = RESULTS / "CLAIMS.md"
DETAILS = sorted((RESULTS / "claims").glob("*.md"))
CHAPTERS = sorted((RESULTS / "gallery").glob("*.md"))
PAGES = [*sorted(RESULTS.glob("*.md")), *DETAILS, *CHAPTERS]
# More is too much for a browser and for a person.
LARGEST = 200_000  # bytes
STALE = "python -m experiments.accept settle=yes writes the pages anew"


@pytest.fixture(scope="module")
def accepted() -> dict[str, SettledClaim]:
    runs = [RESULTS / name / ACCEPTED for name in discover()]
    return {v.claim.id: v for run in runs if run.is_dir() for v in verdicts(run)}


def test_every_verdict_of_the_pages_is_that_of_the_accepted_run(
    accepted: dict[str, SettledClaim],
) -> None:
    row = re.compile(
        r'^\| <a id="claim-([^"]+)"></a>.*\| \**(\w[\w ]*?)\** \| [^|]*\|$', re.MULTILINE
    )
    rows = [found for page in DETAILS for found in row.findall(page.read_text(encoding="utf-8"))]
    assert len(rows) == len(accepted) > 600
    assert dict(rows) == {name: found.verdict for name, found in accepted.items()}, STALE


def test_every_claim_and_experiment_keeps_its_place_on_the_first_page(
    accepted: dict[str, SettledClaim],
) -> None:
    places = re.findall(r'<a id="claim-([^"]+)"></a>', SUMMARY.read_text(encoding="utf-8"))
    assert sorted(places) == sorted(accepted), STALE
    index = (RESULTS / "README.md").read_text(encoding="utf-8")
    shown = {name for name in discover() if (RESULTS / name / ACCEPTED).is_dir()}
    assert sorted(re.findall(r'<a id="(\w+)"></a>', index)) == sorted(shown), STALE
    assert len(re.findall(r"^!\[", index, flags=re.MULTILINE)) == 3, "flagship figures"


def test_every_result_of_the_papers_fared_as_its_claims_did(
    accepted: dict[str, SettledClaim],
) -> None:
    text = SUMMARY.read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| ([FOTU]\d+|S0\.\d+) \| .* \| (.*) \|$", text, re.MULTILINE))
    listed = list(results_of((ROOT / "docs/acceptance.md").read_text(encoding="utf-8")))
    assert len(said) == len(listed) > 70
    for result in listed:
        fared, shown = outcome(result, accepted), said[result.name]
        assert shown.partition("not tried")[0] == fared.partition("not tried")[0], STALE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r'\]\(([^)\s]+)\)|href="([^"]+)"', text))
    for target in {first or second for first, second in targets}:
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        other = page.parent / path if path else page
        assert other.exists(), target
        # A PDF drawn here is none on the next clone: git ignores those of accepted runs.
        assert other.suffix != ".pdf", target
        assert not anchor or other.suffix != ".md" or anchor in headings_of(other), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_one_that_a_browser_can_hold(page: Path) -> None:
    assert page.stat().st_size < LARGEST
    places = re.findall(r'<a id="([^"]+)"', page.read_text(encoding="utf-8"))
    assert len(places) == len(set(places)), "two places have one name"


def test_the_site_leads_to_every_page() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert len(DETAILS) > 6 and len(CHAPTERS) > 5
    for page in PAGES:
        assert f": {page.relative_to(ROOT).as_posix()}\n" in nav
        up = "../" * (len(page.relative_to(RESULTS).parts) - 1)
        first = {"claims": "CLAIMS.md", "gallery": "README.md"}.get(page.parent.name)
        assert first is None or f"]({up}{first})" in page.read_text(encoding="utf-8"), page


@cache
def headings_of(page: Path) -> set[str]:
    """What a link to a page may name: its headings and its marked places."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    names = {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in headings}
    return names | set(re.findall(r'<a id="([^"]+)"', text))


def test_the_tables_of_benchmarks_have_the_rows_that_were_kept() -> None:
    rows = json.loads((RESULTS / "benchmarks.json").read_text())["rows"]
    text = (RESULTS / "benchmarks.md").read_text(encoding="utf-8")
    assert [row["name"] for row in rows if f"| {row['name']} |" not in text] == []
