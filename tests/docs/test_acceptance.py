"""The acceptance page names every figure and check, and only claims that exist."""

import re
from pathlib import Path

import pytest

from circuitax.config.catalogue import discover

PAGE = Path(__file__).parents[2] / "docs" / "acceptance.md"
CLAIMS = re.compile(r"`(\w+): ([\w., -]+)`")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| figure", "| result", "| check"))
]


def test_every_figure_has_one_row() -> None:
    found = {
        letter: [row[0] for row in ROWS if re.fullmatch(letter + r"\d+", row[0])]
        for letter in "FOTU"
    }
    for letter, n in {"F": 22, "O": 15, "T": 19, "U": 9}.items():
        assert found[letter] == [f"{letter}{i}" for i in range(1, n + 1)]
    notes = [row[0] for row in ROWS if row[0].startswith("S0.")]
    assert notes == [f"S0.{i}" for i in range(1, 11)]
    n_results = len(notes) + sum(map(len, found.values()))
    assert len(ROWS) == n_results + 15, "the acceptance table has 15 checks"


def test_every_claim_named_after_a_result_of_the_toy_models_paper_is_in_its_row() -> None:
    listed = {row[0]: row[2] for row in ROWS}
    claims = [claim.id for entry in discover().values() for claim in entry.load_claims()]
    named = [claim for claim in claims if re.match(r"T\d+-", claim)]
    assert len(named) > 20
    assert [claim for claim in named if claim not in listed[claim.split("-")[0]]] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_named_claims_exist(row: list[str]) -> None:
    named = [
        (experiment, claim)
        for experiment, claims in CLAIMS.findall(row[2])
        for claim in claims.split(", ")
    ]
    reason = row[2].partition("not tried: ")[2]
    assert named or reason, "a row without a claim or a reason"
    assert not reason or len(reason.split()) >= 3, "not tried: why?"
    entries = discover()
    for experiment, claim in named:
        known = {c.id for c in entries[experiment].load_claims()}
        assert claim in known, f"{experiment} makes no claim {claim}"
