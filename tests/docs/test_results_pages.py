"""The tracked pages of results say what the accepted runs say, and lead to files that exist."""

import json
import re
from pathlib import Path

import pytest

from circuitax.config.catalogue import discover
from circuitax.lab.runs import ACCEPTED, verdicts
from circuitax.records.acceptance import outcome, results_of
from circuitax.records.claims import Verdict

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
CLAIMS = (RESULTS / "CLAIMS.md").read_text(encoding="utf-8")
PAGES = ("CLAIMS.md", "README.md", "benchmarks.md")
STALE = "python -m experiments.accept settle=yes writes the pages anew"


@pytest.fixture(scope="module")
def accepted() -> dict[str, Verdict]:
    runs = [RESULTS / name / ACCEPTED for name in discover()]
    return {v.claim.id: v for run in runs if run.is_dir() for v in verdicts(run)}


def test_every_verdict_of_the_page_is_that_of_the_accepted_run(
    accepted: dict[str, Verdict],
) -> None:
    rows = re.findall(
        r'^\| <a id="claim-([^"]+)"></a>.*\| \**(\w[\w ]*?)\** \| [^|]*\| [^|]*\|$',
        CLAIMS,
        flags=re.MULTILINE,
    )
    assert len(rows) > 600
    assert dict(rows) == {name: found.verdict for name, found in accepted.items()}, STALE


def test_every_result_of_the_papers_fared_as_its_claims_did(accepted: dict[str, Verdict]) -> None:
    said = dict(re.findall(r"^\| ([FOTU]\d+|S0\.\d+) \| .* \| (.*) \|$", CLAIMS, re.MULTILINE))
    listed = list(results_of((ROOT / "docs/acceptance.md").read_text(encoding="utf-8")))
    assert len(said) == len(listed) > 70
    for result in listed:
        fared, shown = outcome(result, accepted), said[result.name]
        assert shown.partition("not tried")[0] == fared.partition("not tried")[0], STALE


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_somewhere(page: str) -> None:
    text = (RESULTS / page).read_text(encoding="utf-8")
    anchors = {name: headings_of(RESULTS / name) for name in ("CLAIMS.md", "README.md")}
    targets = set(re.findall(r'\]\(([^)\s]+)\)|href="([^"]+)"', text))
    for target in {first or second for first, second in targets}:
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        assert not path or (RESULTS / path).exists(), target
        if anchor and (path or page) in anchors:
            assert anchor in anchors[path or page], target


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
