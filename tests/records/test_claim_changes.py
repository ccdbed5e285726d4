"""What differs between two versions of claims, and that every difference needs a row."""

from pathlib import Path

import pytest

from circuitax.records.claim_changes import (
    Change,
    Difference,
    Pilot,
    changes_table,
    differences,
    moved,
    pilots_table,
    read_changes,
    read_moves,
    read_pilots,
    unexplained,
)

OLD = {
    "id": "a",
    "statement": "It is so",
    "n": 8,
    "selection": "all",
    "quantity": "a",
    "kind": "relation",
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
    assert differences([OLD | {"kind": "shape"}], [OLD]) == [], "the former word for a relation"
    null = {"kind": "permuted", "how": "heads are shuffled", "answer": None}
    assert differences([OLD], [OLD | {"null": null}]) == [], "its first"
    assert differences([OLD | {"null": null}], [OLD | {"null": null}]) == []
    for other in (None, null | {"how": "labels are shuffled"}):
        assert differences([OLD | {"null": null}], [OLD | {"null": other}]) == [("a", "null")]


def test_a_row_explains_what_it_names_and_no_more() -> None:
    found = [Difference("a", "reworded"), Difference("a", "allowed"), Difference("b", "reworded")]
    rows = [Change(("a", "c"), ("reworded",), "abc", "so")]
    assert unexplained(found, rows) == found[1:]


def test_rows_are_read_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "changes.toml"
    text = (
        'since = "abc"\n[[change]]\nclaims = ["a"]\nwhat = ["added"]\ncommit = "def"\nwhy = "so"\n'
    )
    row = text.split("\n", 1)[1]
    path.write_text(text + row.replace('["a"]', "[]").replace("added", "rule"))
    since, rows = read_changes(path)
    assert since == "abc" and rows[0] == Change(("a",), ("added",), "def", "so")
    first, second = changes_table(rows, {"b": "b.md"}).splitlines()[2:]
    assert first == "| def | rule | all | so |" and second == "| def | added | `a` | so |"
    path.write_text(text.replace('"added"', ""))
    with pytest.raises(ValueError, match=r"what=\[\] of change 0 must be among .*, at least one"):
        read_changes(path)
    path.write_text(text.replace("added", "widened"))
    with pytest.raises(ValueError, match=r"what=\['widened'\] of change 0 must be among"):
        read_changes(path)
    path.write_text(text.replace("why", "reason"))
    with pytest.raises(ValueError, match=r"change 0 of changes\.toml must have the fields"):
        read_changes(path)


def test_long_cells_are_folded_behind_their_first_words() -> None:
    why = "One\ntwo `three` " + "four " * 7 + "`five | six` seven"
    (line,) = changes_table(
        [Change(("a", "b", "c"), ("n",), "def", why)], {"b": "b.md#b"}
    ).splitlines()[2:]
    commit, what, claims, reason = line.replace("\\|", "").strip("| ").split(" | ")
    assert (commit, what) == ("def", "n")
    folded = "<details><summary>3 claims</summary>`a`, [`b`](b.md#b), `c`</details>"
    assert claims == folded
    opening, whole = reason.removeprefix("<details><summary>").split("</summary>")
    assert opening.startswith("One two `three` four") and len(opening) <= 40
    assert opening.count("`") == 2, "a name is shown whole or not at all"
    assert whole.startswith("One two") and whole.endswith("six` seven</details>")


def test_pilots_are_read_and_shown_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "changes.toml"
    pilot = '[[pilot]]\nexperiment = "walk"\nkey = "77"\ncommit = "abc"\nseen = """\nit\nfalls"""\n'
    path.write_text(pilot + pilot.replace("walk", "run"))
    assert read_pilots(path)[0] == Pilot("walk", "77", "abc", "it\nfalls")
    first, second = pilots_table(read_pilots(path)).splitlines()[2:]
    assert first == "| walk | 77 | abc | it falls |" and second.startswith("| run | 77 |")
    path.write_text('since = "abc"\n')
    assert read_pilots(path) == []
    path.write_text(pilot.replace("key", "seed"))
    with pytest.raises(ValueError, match=r"pilot 0 of changes\.toml must have the fields"):
        read_pilots(path)


def test_verdicts_move_where_something_was_looked_at(tmp_path: Path) -> None:
    given = ["out of reach", "not run", "fails", "fails", "not run", "fails", "holds", "holds"]
    assert moved(given) == ("fails", "holds")
    assert moved(["not run", "holds"]) == ("holds",)
    path = tmp_path / "changes.toml"
    path.write_text('[moved]\n"a" = ["fails", "holds"]\n')
    assert read_moves(path) == {"a": ("fails", "holds")}
    path.write_text('since = "abc"\n')
    assert read_moves(path) == {}
    for wrong in ('["holds"]', '["holds", "holds"]', '["not run", "holds"]'):
        path.write_text(f'[moved]\n"a" = {wrong}\n')
        with pytest.raises(ValueError, match=r"moved.a=.* must be two verdicts or more, each new"):
            read_moves(path)
