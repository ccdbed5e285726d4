"""Changes of claims since they were first accepted: ``python -m experiments.changes``."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

from circuitax.commands.options import Command, refuse
from circuitax.config.catalogue import checkout, discover
from circuitax.lab.pages import CHANGES
from circuitax.records.claim_changes import Difference, differences, read_changes, unexplained
from circuitax.records.claims import Verdict
from circuitax.records.verdict_json import verdict_to_json

_ACCEPTED = "results/{}/accepted/claims.json"

COMMAND = Command(
    "changes",
    """\
Compares the claims of the source with those of each experiment's first acceptance and with those
that the last release accepted, as git has them, and names every difference that has no row in
docs/claim_changes.toml.
""",
)


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Print the missing rows; exit status 1 if there are any."""
    try:
        missing = missing_rows()
    except ValueError as error:
        return refuse(error)
    for experiment, difference in missing:
        print(f"{experiment}: {difference.claim}: {difference.what}")
    return 1 if missing else 0


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


def _found(since: str) -> Iterator[tuple[str, list[Difference]]]:
    if _git("cat-file", "-e", f"{since}^{{commit}}") is None:
        raise ValueError(f"since={since} must be a commit of this repository, which git has not")
    first = _first_accepted()
    for name, entry in sorted(discover().items()):
        claims = [verdict_to_json(Verdict(claim, "", None, "")) for claim in entry.load_claims()]
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
