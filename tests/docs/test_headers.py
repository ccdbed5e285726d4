"""What the header of a configuration says is true: minutes at quick scale, and what is settled."""

import re
from pathlib import Path

import pytest

from circuitax.config.catalogue import discover

ROOT = Path(__file__).parents[2]
ENTRIES = discover()
SECONDS = re.compile(r"[Qq]uick scale[^.:]*(?:takes|:)[^.]*? (\d+(?:\.\d+)?) (second|minute)")
CODE = r"([FOTU])(\d+)"
STANDS_FOR: dict[str, set[str]] = {}
for _line in (ROOT / "docs/acceptance.md").read_text().splitlines():
    for _name in re.findall(r"`(\w+): [\w.-]+", _line):
        STANDS_FOR.setdefault(_name, set()).add(_line.strip("| ").split(" | ")[0])


def header(name: str) -> str:
    text = (ROOT / "conf/experiment" / f"{name}.yaml").read_text()
    comments = [line for line in text.splitlines() if line.startswith("#")]
    return " ".join(line.removeprefix("#").strip() for line in comments)


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_a_header_says_the_expected_time(name: str) -> None:
    found = SECONDS.search(header(name))
    assert found is not None, "Quick scale: about N minutes on 2 cores"
    said = float(found[1]) * (60 if found[2] == "minute" else 1)
    assert said == pytest.approx(ENTRIES[name].budget_seconds, rel=0.15)


def codes_in(text: str) -> set[str]:
    """Codes of acceptance rows that a text names, ranges such as ``F7 to F9`` written out."""
    found = {letter + number for letter, number in re.findall(rf"\b{CODE}\b", text)}
    for letter, first, other, last in re.findall(rf"\b{CODE}(?:-| to ){CODE}\b", text):
        assert letter == other
        found |= {f"{letter}{i}" for i in range(int(first), int(last) + 1)}
    return found


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_a_header_settles_what_the_acceptance_page_gives_it(name: str) -> None:
    settles = header(name).partition("ettles ")[2]
    assert codes_in(settles) <= STANDS_FOR.get(name, set())


def test_codes_of_a_range_are_written_out() -> None:
    assert codes_in("figures F2, F7-F9 and O10 to O12") == {
        *("F2", "F7", "F8", "F9", "O10", "O11", "O12")
    }
