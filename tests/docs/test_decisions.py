"""The decisions are short, and what they name is so."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/decisions.md").read_text(encoding="utf-8")
ENTRIES = [part for part in PAGE.split("\n\n") if part.startswith("**")]
LONGEST = 120  # words


def test_every_entry_is_short_and_has_a_title() -> None:
    assert len(ENTRIES) > 40
    texts = [part.strip() for part in PAGE.split("\n\n")]
    others = [text for text in texts if not text.startswith(("**", "#"))]
    assert len(others) == 1, "an entry is one paragraph, which begins with its title"
    assert [entry[:60] for entry in ENTRIES if len(entry.split()) > LONGEST] == []


def test_versions_that_the_decisions_name_are_those_that_are_installed() -> None:
    (entry,) = [entry for entry in ENTRIES if entry.startswith("**Two ranges of JAX versions.**")]
    constraints = (ROOT / "constraints.txt").read_text()
    named = re.findall(r"(JAX|Flax) (\d+\.\d+\.\d[\d.]*\d|\d+\.\d+\.\d)", entry)
    assert len(named) >= 4
    for library, version in named:
        assert f"\n{library.lower()}=={version} ;" in constraints, (library, version)
