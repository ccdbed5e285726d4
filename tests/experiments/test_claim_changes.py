"""Every claim that is not as the last release had it has a row that says what changed, and why."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from circuitax.commands import changes
from circuitax.config.catalogue import discover
from circuitax.records.claim_changes import read_changes, read_pilots

ROOT = Path(__file__).parents[2]
SINCE, ROWS = read_changes(ROOT / "docs" / "claim_changes.toml")
PILOTS = read_pilots(ROOT / "docs" / "claim_changes.toml")


def in_git(commit: str) -> bool:
    if shutil.which("git") is None:
        return False
    command = ["git", "cat-file", "-e", f"{commit}^{{commit}}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def in_commit(commit: str, file: Path | str) -> str:
    """A file as a commit has it; empty if it has none."""
    command = ["git", "show", f"{commit}:{file}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).stdout.decode()


@pytest.mark.skipif(not in_git(SINCE), reason="git does not have the last release here")
def test_no_difference_lacks_a_row() -> None:
    assert changes.missing_rows() == [], "python -m experiments.changes lists them"
    assert changes.missing_moves() == {}, "python -m experiments.changes lists them"
    assert changes.faulty_settings() == [], "python -m experiments.changes lists them"


@pytest.mark.skipif(not in_git(SINCE), reason="git does not have the last release here")
@pytest.mark.parametrize("name", sorted(discover()))
def test_a_claim_that_its_run_had_not_seen_is_said_to_be_added_on_accepted_data(name: str) -> None:
    accepted = ROOT / "results" / name / "accepted"
    if not accepted.exists():
        pytest.skip("it has no accepted run")
    now = discover()[name].file("claims")
    ran = json.loads((accepted / "provenance.json").read_text())["commit"]
    # Before there were chapters, experiments stood side by side.
    before = in_commit(ran, now.relative_to(ROOT)) or in_commit(
        ran, f"experiments/{name}/{now.name}"
    )
    if not before:
        pytest.skip(f"git does not have {ran} here")
    # What was settled by then was there, also where the source put its name together from parts.
    before += in_commit(ran, f"results/{name}/accepted/claims.json")
    settled = [row["id"] for row in json.loads((accepted / "claims.json").read_text())]
    ids = [claim for claim in settled if f'"{claim}"' in now.read_text()]
    said = {
        claim
        for row in ROWS
        if "added" in row.what and "accepted" in row.why
        for claim in row.claims
    }
    assert [claim for claim in ids if f'"{claim}"' not in before and claim not in said] == []


@pytest.mark.skipif(not in_git(SINCE), reason="git does not have the last release here")
def test_every_row_names_a_commit_of_this_history() -> None:
    assert [row.commit for row in (*ROWS, *PILOTS) if not in_git(row.commit)] == []
    assert [pilot.experiment for pilot in PILOTS if pilot.experiment not in discover()] == []


@pytest.mark.skipif(not in_git(SINCE), reason="git does not have the last release here")
def test_an_experiment_that_the_release_lacked_is_held_against_its_first_acceptance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "read_changes", lambda path: (SINCE, []))
    missing = changes.missing_rows()
    assert ("text_superposition", ("features-error", "added")) in missing
    assert ("text_induction_circuits", ("primed-alone", "removed")) in missing
    assert not any(experiment == "planted_heads" for experiment, _ in missing)


def test_a_release_that_git_does_not_have_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(changes, "read_changes", lambda path: ("0123456789abcdef", []))
    assert changes.main([]) == 2
    assert "since=0123456789abcdef must be a commit" in capsys.readouterr().err
    assert changes.main(["--help"]) == 0
