"""Which claims are not as the last release had them: ``python -m experiments.changes``."""

import json
import subprocess
import sys
from collections.abc import Iterator

from circuitax.commands.options import refuse
from circuitax.config.catalogue import checkout, discover
from circuitax.lab.pages import CHANGES
from circuitax.records.claim_changes import Difference, differences, read_changes, unexplained
from circuitax.records.claims import Verdict, verdict_to_json

HELP = """\
usage: python -m experiments.changes

Compares the claims of the source with those that the last release accepted, as git has them, and
names every difference that has no row in docs/claim_changes.toml. An experiment that the last
release had not accepted is new, and needs no row.
"""


def main(arguments: list[str] | None = None) -> int:
    """Print what is missing; exit status 1 if anything is."""
    typed = sys.argv[1:] if arguments is None else arguments
    if typed:
        print(HELP, end="")
        return 0 if {"-h", "--help"} & set(typed) else 2
    try:
        missing = missing_rows()
    except ValueError as error:
        return refuse(error)
    for experiment, difference in missing:
        print(f"{experiment}: {difference.claim}: {difference.what}")
    return 1 if missing else 0


def missing_rows() -> list[tuple[str, Difference]]:
    """Every difference that no row names, with its experiment.

    Raises:
        ValueError: If git does not have the commit of the last release.
    """
    since, rows = read_changes(checkout() / CHANGES)
    return [
        (experiment, difference)
        for experiment, found in _found(since)
        for difference in unexplained(found, rows)
    ]


def _found(since: str) -> Iterator[tuple[str, list[Difference]]]:
    if _git("cat-file", "-e", f"{since}^{{commit}}") is None:
        raise ValueError(f"since={since} must be a commit of this repository, which git has not")
    for name, entry in sorted(discover().items()):
        accepted = _git("show", f"{since}:results/{name}/accepted/claims.json")
        if accepted is None:
            continue
        claims = [Verdict(claim, "", None, "") for claim in entry.load_claims()]
        yield name, differences(json.loads(accepted), map(verdict_to_json, claims))


def _git(*arguments: str) -> str | None:
    done = subprocess.run(
        ["git", *arguments], cwd=checkout(), capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else None
