"""The glossary is alphabetical, and it and the bibliography have what the code cites."""

import calendar
import re
from pathlib import Path

import pytest

from circuitax.config.catalogue import discover
from circuitax.kernel.model_fields import AXES

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs/glossary.md").read_text()
TERMS, _AXES, _WEIGHTS = re.split(r"^## .*$", GLOSSARY, flags=re.MULTILINE)
BIBLIOGRAPHY = (ROOT / "docs/bibliography.md").read_text()
CITED = re.compile(r"([A-Z][a-z]+)(?:, \w+)*(?: et al\.| and [A-Z][a-z]+)? \(?((?:19|20)\d\d)\b")


def first_words(table: str) -> list[str]:
    return re.findall(r"^\| (?:\*\*|`)([^*`]+)", table, flags=re.MULTILINE)


@pytest.mark.parametrize("table", [TERMS, _AXES, _WEIGHTS], ids=["terms", "axes", "weights"])
def test_rows_are_in_alphabetical_order(table: str) -> None:
    words = first_words(table)
    assert len(words) > 10
    # Letters only; weights begin with a capital, and small ones follow.
    keys = [re.sub(r"[^a-z0-9]", "", w.lower()) if table is TERMS else w for w in words]
    assert keys == sorted(keys)


def test_every_axis_and_weight_of_a_model_is_named() -> None:
    for name, axes in AXES.items():
        weight = name.split(".")[-1]
        if weight[0] != "b" and weight not in {"gain", "offset"}:
            assert f"`{weight}`" in _WEIGHTS, weight
        for axis in axes:
            assert f"`{axis}`" in _AXES, axis


def test_papers_that_code_and_claims_cite_are_listed() -> None:
    texts = [path.read_text() for path in (ROOT / "src/circuitax").rglob("*.py")]
    texts += [claim.source for e in discover().values() for claim in e.load_claims()]
    cited = {found for text in texts for found in CITED.findall(text)}
    others = {"Copyright", *calendar.month_name}  # which stand before a year, and are no names
    names = {(name, year) for name, year in cited if name not in others}
    assert len(names) > 15
    missing = [
        f"{name} {year}"
        for name, year in sorted(names)
        if not re.search(rf"{name}\b[^\n]*{year}", BIBLIOGRAPHY)
    ]
    assert missing == []
