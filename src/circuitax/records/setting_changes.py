"""Changes of an experiment's settings between one accepted run and the next, with reasons."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from circuitax.records.claim_texts import cell


class AcceptedSettings(NamedTuple):
    """Settings of one accepted run.

    Attributes:
        run: Experiment and identity, such as ``"toy_sae/89c971c081c2"``.
        key: Root key.
        spec: The resolved settings, as ``spec.json`` has them.
    """

    run: str
    key: int
    spec: Mapping[str, Any]


class SettingChange(NamedTuple):
    """A row of the table of settings that changed after a verdict.

    Attributes:
        runs: Accepted runs with the changed settings, as `AcceptedSettings` names them.
        seen: What had been seen before.
        why: Why they were changed.
        kept_key: Why the root key is that of the run before; empty where it is another.
    """

    runs: tuple[str, ...]
    seen: str
    why: str
    kept_key: str


def changed_settings(before: AcceptedSettings, now: AcceptedSettings) -> tuple[str, ...]:
    """Names of the settings with another value, such as ``"optim.steps"``, in order.

    A setting that only one of the two knows is none: it came or went with the code.
    """
    old, new = dict(_flat(before.spec)), dict(_flat(now.spec))
    return tuple(sorted(name for name in old.keys() & new.keys() if old[name] != new[name]))


def setting_fault(
    before: AcceptedSettings, now: AcceptedSettings, rows: Sequence[SettingChange]
) -> str:
    """Fault of a run with other settings than the accepted run before; empty if none.

    A change after a verdict has a row, and a root key that nobody had looked at, or else a reason
    for the old one.
    """
    changed = changed_settings(before, now)
    if not changed:
        return ""
    row = next((row for row in rows if now.run in row.runs), None)
    said = f"{now.run} has other settings than the accepted run before ({', '.join(changed)})"
    if row is None:
        return f"{said}: a [[setting]] of docs/claim_changes.toml must say what was seen and why"
    kept = before.key == now.key
    if kept and not row.kept_key:
        return f"{said} and its root key, seed={now.key}, which must be another, or say kept_key"
    if row.kept_key and not kept:
        return f"{said} and another root key: its kept_key must be empty"
    return ""


def read_setting_changes(path: Path) -> list[SettingChange]:
    """The rows of a TOML file, the oldest first.

    Raises:
        ValueError: If a row lacks a field, or what was seen or why is empty.
    """
    with path.open("rb") as file:
        kept = tomllib.load(file).get("setting", [])
    rows = []
    for i, row in enumerate(kept):
        if set(row) != set(SettingChange._fields):
            raise ValueError(
                f"setting {i} of {path.name} must have the fields {SettingChange._fields}"
            )
        found = SettingChange(**{**row, "runs": tuple(row["runs"])})
        if not (found.runs and found.seen.strip() and found.why.strip()):
            raise ValueError(f"setting {i} of {path.name} must have runs, seen and why")
        rows.append(found)
    return rows


def setting_changes_table(rows: Sequence[SettingChange]) -> str:
    """The rows as Markdown, the newest first."""
    lines = ["| runs | what was seen | why settings changed | root key |", "|" + " --- |" * 4]
    for row in reversed(rows):
        key = f"kept: {row.kept_key}" if row.kept_key else "another"
        cells = (", ".join(f"`{run}`" for run in row.runs), row.seen, row.why, key)
        lines.append(f"| {' | '.join(map(cell, cells))} |")
    return "\n".join(lines)


def _flat(spec: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in spec.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}{key}.")
        else:
            yield f"{name}{key}", value
