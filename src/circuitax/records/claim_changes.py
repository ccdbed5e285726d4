"""Changes of claims after the last release: what differs, and the table that gives reasons."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# What may differ between two versions of a claim, by the word that a row uses for it.
_FIELDS = {
    "reworded": "statement",
    "n": "n",
    "selection": "selection",
    "quantity": "quantity",
    "kind": "kind",
}
WORDS = ("added", "removed", "allowed", *_FIELDS)


class Difference(NamedTuple):
    """One thing about one claim that is not as it was."""

    claim: str
    what: str  # one of WORDS


class Change(NamedTuple):
    """A row of the table of changes.

    Attributes:
        claims: Ids of the claims changed; empty for a change of the rule itself.
        what: What changed, each one of `WORDS`.
        commit: Commit that changed it.
        why: Why, and on what it is judged since.
    """

    claims: tuple[str, ...]
    what: tuple[str, ...]
    commit: str
    why: str


def differences(
    before: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]
) -> list[Difference]:
    """What differs between two versions of an experiment's claims, given as in ``claims.json``."""
    old = {claim["id"]: claim for claim in before}
    new = {claim["id"]: claim for claim in now}
    found = [Difference(name, "added") for name in new if name not in old]
    found += [Difference(name, "removed") for name in old if name not in new]
    for name in (name for name in new if name in old):
        found += [
            Difference(name, word)
            for word, field in _FIELDS.items()
            if old[name][field] != new[name][field]
        ]
        ends = [
            (claim["expected"]["low"], claim["expected"]["high"])
            for claim in (old[name], new[name])
        ]
        if ends[0] != ends[1]:
            found.append(Difference(name, "allowed"))
    return found


def read_changes(path: Path) -> tuple[str, list[Change]]:
    """The commit of the last release, and all rows, from a TOML file.

    Raises:
        ValueError: If a row lacks a field, or says of a change what is none of `WORDS`.
    """
    with path.open("rb") as file:
        kept = tomllib.load(file)
    rows = []
    for i, row in enumerate(kept["change"]):
        if set(row) != set(Change._fields):
            raise ValueError(f"change {i} of {path.name} must have the fields {Change._fields}")
        unknown = sorted(set(row["what"]) - set(WORDS))
        if unknown:
            raise ValueError(f"what={unknown} of change {i} must be among {WORDS}")
        rows.append(Change(tuple(row["claims"]), tuple(row["what"]), row["commit"], row["why"]))
    return kept["since"], rows


def unexplained(found: Iterable[Difference], rows: Sequence[Change]) -> list[Difference]:
    """The differences that no row names."""
    named = {(claim, what) for row in rows for claim in row.claims for what in row.what}
    return [difference for difference in found if tuple(difference) not in named]


def changes_table(rows: Sequence[Change]) -> str:
    """The rows as Markdown, the newest first."""
    lines = ["| claims | what changed | commit | why |", "|" + " --- |" * 4]
    for row in reversed(rows):
        claims = ", ".join(f"`{name}`" for name in row.claims) or "all"
        what = ", ".join(row.what) or "rule"
        lines.append(f"| {claims} | {what} | {row.commit} | {' '.join(row.why.split())} |")
    return "\n".join(lines)
