"""What differs between two versions of claims, and that every difference needs a row."""

from pathlib import Path

import pytest

from circuitax.records.claim_changes import (
    Change,
    Difference,
    changes_table,
    differences,
    read_changes,
    unexplained,
)

OLD = {
    "id": "a",
    "statement": "It is so",
    "n": 8,
    "selection": "all",
    "quantity": "a",
    "kind": "shape",
    "expected": {"low": 0, "high": None, "text": "at least 0"},
}


def test_every_kind_of_difference_is_found() -> None:
    assert differences([OLD], [OLD | {"why": "another reason"}]) == []
    assert differences([OLD], [OLD | {"id": "b"}]) == [("b", "added"), ("a", "removed")]
    for word, field, value in (
        ("reworded", "statement", "It is not"),
        ("n", "n", 3),
        ("selection", "selection", "some"),
        ("quantity", "quantity", "z"),
        ("kind", "kind", "number"),
        ("allowed", "expected", {"low": -1, "high": None, "text": "at least 0"}),
    ):
        assert differences([OLD], [OLD | {field: value}]) == [("a", word)]


def test_a_row_explains_what_it_names_and_no_more() -> None:
    found = [Difference("a", "reworded"), Difference("a", "allowed"), Difference("b", "reworded")]
    rows = [Change(("a", "c"), ("reworded",), "abc", "so")]
    assert unexplained(found, rows) == found[1:]


def test_rows_are_read_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "changes.toml"
    text = (
        'since = "abc"\n[[change]]\nclaims = ["a"]\nwhat = ["added"]\ncommit = "def"\nwhy = "so"\n'
    )
    path.write_text(text + text.split("\n", 1)[1].replace('["a"]', "[]").replace('["added"]', "[]"))
    since, rows = read_changes(path)
    assert since == "abc" and rows[0] == Change(("a",), ("added",), "def", "so")
    first, second = changes_table(rows).splitlines()[2:]
    assert first == "| all | rule | def | so |" and second == "| `a` | added | def | so |"
    path.write_text(text.replace("added", "widened"))
    with pytest.raises(ValueError, match=r"what=\['widened'\] of change 0 must be among"):
        read_changes(path)
    path.write_text(text.replace("why", "reason"))
    with pytest.raises(ValueError, match=r"change 0 of changes\.toml must have the fields"):
        read_changes(path)
