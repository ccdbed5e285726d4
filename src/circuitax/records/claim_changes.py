"""Changes of claims since they were first accepted, with reasons, and the pilots before them."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

from circuitax.records.claim_texts import cell
from circuitax.records.claims import NOT_RUN
from circuitax.records.settled_json import kind_of

# What may differ between two versions of a claim, by the word that a row uses for it.
_FIELDS = {
    "reworded": "statement",
    "n": "n",
    "selection": "selection",
    "quantity": "quantity",
}
# What no comparison of claims finds: a number is measured otherwise or on other data, a claim is
# put down to another source, or all claims are judged by another rule.
_BESIDE = ("measure", "data", "source", "rule")
WORDS = ("added", "removed", "allowed", "kind", "null", *_FIELDS, *_BESIDE)
# Nothing was measured: not run, by its former name too.
_NO_LOOK = (NOT_RUN, "out of reach")
# What a cell of a table shows unfolded: ids of claims, and letters of a text.
_SHOWN, _WIDTH = 2, 40


class Difference(NamedTuple):
    """One changed aspect of a claim."""

    claim: str
    what: str  # one of WORDS


class Change(NamedTuple):
    """A row of the table of changes.

    Attributes:
        claims: Ids of the claims changed; empty for a change of the rule itself.
        what: What changed, at least one of `WORDS`.
        commit: Commit that changed it.
        why: Why, and on what it is judged since.
    """

    claims: tuple[str, ...]
    what: tuple[str, ...]
    commit: str
    why: str


class Pilot(NamedTuple):
    """Pilot runs seen before the claims of an experiment were fixed.

    Attributes:
        experiment: Whose claims or settings they shaped.
        key: Root key of the runs, as far as it was recorded.
        commit: Commit that carried what was seen into claims or settings.
        seen: What was seen, and what was fixed by it.
    """

    experiment: str
    key: str
    commit: str
    seen: str


def differences(
    before: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]
) -> list[Difference]:
    """Differences between two versions of an experiment's claims, given as in ``claims.json``."""
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
        if kind_of(old[name]) != kind_of(new[name]):
            found.append(Difference(name, "kind"))
        # The first null of a claim changes nothing of what was claimed; another one may.
        null = old[name].get("null")
        if null is not None and null != new[name].get("null"):
            found.append(Difference(name, "null"))
    return found


def read_changes(path: Path) -> tuple[str, list[Change]]:
    """The commit of the last release, and all rows, from a TOML file.

    Raises:
        ValueError: If a row lacks a field, or says of a change what is none of `WORDS`.
    """
    kept = _read(path)
    rows = []
    for i, row in enumerate(kept["change"]):
        if set(row) != set(Change._fields):
            raise ValueError(f"change {i} of {path.name} must have the fields {Change._fields}")
        unknown = sorted(set(row["what"]) - set(WORDS))
        if unknown or not row["what"]:
            raise ValueError(f"what={unknown} of change {i} must be among {WORDS}, at least one")
        rows.append(Change(tuple(row["claims"]), tuple(row["what"]), row["commit"], row["why"]))
    return kept["since"], rows


def read_pilots(path: Path) -> list[Pilot]:
    """The pilots on record, from the same file.

    Raises:
        ValueError: If one lacks a field.
    """
    pilots = []
    for i, row in enumerate(_read(path).get("pilot", [])):
        if set(row) != set(Pilot._fields):
            raise ValueError(f"pilot {i} of {path.name} must have the fields {Pilot._fields}")
        pilots.append(Pilot(**row))
    return pilots


def read_moves(path: Path) -> dict[str, tuple[str, ...]]:
    """The verdicts of each claim that moved, the oldest first, from the same file.

    Raises:
        ValueError: If one has fewer than two verdicts, or one of them twice running.
    """
    moves = {claim: tuple(verdicts) for claim, verdicts in _read(path).get("moved", {}).items()}
    for claim, verdicts in moves.items():
        if len(verdicts) < 2 or moved(verdicts) != verdicts:
            raise ValueError(f"moved.{claim}={verdicts} must be two verdicts or more, each new")
    return moves


def moved(verdicts: Iterable[str]) -> tuple[str, ...]:
    """Verdicts without repetition, those of claims that were not measured left out."""
    looked_at = [verdict for verdict in verdicts if verdict not in _NO_LOOK]
    return tuple(verdict for verdict, _ in groupby(looked_at))


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return tomllib.load(file)


def unexplained(found: Iterable[Difference], rows: Sequence[Change]) -> list[Difference]:
    """The differences that no row explains."""
    named = {(claim, what) for row in rows for claim in row.claims for what in row.what}
    return [difference for difference in found if tuple(difference) not in named]


def changes_table(rows: Sequence[Change], places: Mapping[str, str]) -> str:
    """The rows as Markdown, the newest first; ids in number and reasons are folded.

    Args:
        rows: The oldest first.
        places: Addresses of claims by id; one that was removed has none.
    """
    lines = ["| commit | what changed | claims | why |", "|" + " --- |" * 4]
    for row in reversed(rows):
        named = [f"[`{n}`]({places[n]})" if n in places else f"`{n}`" for n in row.claims]
        claims = ", ".join(named) or "all"
        if len(named) > _SHOWN:
            claims = f"<details><summary>{len(named)} claims</summary>{claims}</details>"
        lines.append(f"| {row.commit} | {', '.join(row.what)} | {claims} | {_opening(row.why)} |")
    return "\n".join(lines)


def pilots_table(pilots: Sequence[Pilot]) -> str:
    """The pilots as Markdown, in their order; what was seen is folded."""
    lines = ["| experiment | root key | commit | what was seen |", "|" + " --- |" * 4]
    for pilot in pilots:
        seen = _opening(pilot.seen)
        lines.append(f"| {pilot.experiment} | {pilot.key} | {pilot.commit} | {seen} |")
    return "\n".join(lines)


def _opening(text: str) -> str:
    """The first words of a text, with all of it in a fold."""
    whole = cell(text)
    opening = shorten(whole, _WIDTH, placeholder=" …")
    if opening == whole:
        return whole
    if opening.count("`") % 2:  # never half a name
        opening = f"{opening[: opening.rindex('`')]}…"
    return f"<details><summary>{opening}</summary>{whole}</details>"
