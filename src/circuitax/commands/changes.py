"""Changes of claims and settings since they were accepted: ``python -m experiments.changes``."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from circuitax.commands.options import Command, refuse
from circuitax.config.catalogue import checkout, discover
from circuitax.lab.pages import CHANGES
from circuitax.records.claim_changes import (
    Difference,
    differences,
    moved,
    read_changes,
    read_moves,
    unexplained,
)
from circuitax.records.claims import SettledClaim
from circuitax.records.setting_changes import (
    AcceptedSettings,
    read_setting_changes,
    setting_fault,
)
from circuitax.records.settled_json import settled_to_json

_ACCEPTED = "results/{}/accepted/claims.json"

COMMAND = Command(
    "changes",
    """\
Compares the claims of the source with those of each experiment's first acceptance and with those
that the last release accepted, as git has them, and names every difference that has no row in
docs/claim_changes.toml. Then every claim whose accepted verdict moved, as a line for the table
[moved] of that file, where it is not there or was moved otherwise. Then every accepted run whose
settings are not those of the one before, without a row that says what was seen and why, or on the
same root key without a reason.
""",
)


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Print the missing rows; exit status 1 if there are any."""
    try:
        missing, moves, settings = missing_rows(), missing_moves(), faulty_settings()
    except ValueError as error:
        return refuse(error)
    for experiment, difference in missing:
        print(f"{experiment}: {difference.claim}: {difference.what}")
    for claim, verdicts in moves.items():
        print(f"{json.dumps(claim)} = {json.dumps(verdicts)}")
    for fault in settings:
        print(fault)
    return 1 if missing or moves or settings else 0


def missing_rows() -> list[tuple[str, Difference]]:
    """Every difference that no row explains, with its experiment.

    Raises:
        ValueError: If git does not have the commit of the last release.
    """
    since, rows = read_changes(checkout() / CHANGES)
    missing = [
        (experiment, difference)
        for experiment, found in _found(since)
        for difference in unexplained(found, rows)
    ]
    return sorted(set(missing))


def missing_moves() -> dict[str, tuple[str, ...]]:
    """Every claim whose accepted verdict moved otherwise than the table has it."""
    kept = read_moves(checkout() / CHANGES)
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(discover()):
        verdicts: dict[str, list[str]] = {}
        for (claims,) in _accepted(name, "claims"):
            for row in claims:
                verdicts.setdefault(row["id"], []).append(row["verdict"])
        found |= {claim: moved(given) for claim, given in verdicts.items()}
    there = {claim: given for claim, given in found.items() if len(given) > 1}
    return {claim: given for claim, given in there.items() if kept.get(claim) != given}


def faulty_settings() -> list[str]:
    """Faults of accepted runs with other settings than those before, `setting_fault`."""
    rows = read_setting_changes(checkout() / CHANGES)
    faults = []
    for name in sorted(discover()):
        runs = [accepted_settings(*found) for found in _accepted(name, "provenance", "spec")]
        faults += [setting_fault(before, now, rows) for before, now in pairwise(runs)]
    return [fault for fault in faults if fault]


def accepted_settings(facts: Mapping[str, Any], spec: Mapping[str, Any]) -> AcceptedSettings:
    """The settings of a run from its provenance and its ``spec.json``."""
    return AcceptedSettings(f"{facts['experiment']}/{facts['run']}", facts["seed"], spec)


def _accepted(experiment: str, *parts: str) -> Iterator[list[Any]]:
    """Files of the accepted run in every commit that changed one of them, and as they are now."""
    files = [f"results/{experiment}/accepted/{part}.json" for part in parts]
    for commit in (_git("log", "--reverse", "--format=%H", "--", *files) or "").split():
        texts = [_git("show", f"{commit}:{file}") for file in files]
        if None not in texts:
            yield [json.loads(text) for text in texts if text is not None]
    paths = [checkout() / file for file in files]
    if all(path.is_file() for path in paths):
        yield [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def _found(since: str) -> Iterator[tuple[str, list[Difference]]]:
    if _git("cat-file", "-e", f"{since}^{{commit}}") is None:
        raise ValueError(f"since={since} must be a commit of this repository, which git has not")
    first = _first_accepted()
    for name, entry in sorted(discover().items()):
        claims = [
            settled_to_json(SettledClaim(claim, "", None, "")) for claim in entry.load_claims()
        ]
        for commit in filter(None, (first.get(name), since)):
            accepted = _git("show", f"{commit}:{_ACCEPTED.format(name)}")
            if accepted is not None:
                yield name, differences(json.loads(accepted), claims)


def _first_accepted() -> dict[str, str]:
    """The oldest commit in git that accepted a run of each experiment."""
    pattern = _ACCEPTED.format("*")
    log = _git("log", "--diff-filter=A", "--format=%H", "--name-only", "--", f":(glob){pattern}")
    first, commit = {}, ""
    for line in (log or "").split():  # the newest commit first, its files behind it
        if "/" in line:
            first[line.split("/")[1]] = commit
        else:
            commit = line
    return first


def _git(*arguments: str) -> str | None:
    done = subprocess.run(
        ["git", *arguments], cwd=checkout(), capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else None
