"""Every claim that is not as the last release had it has a row that says what changed, and why."""

import shutil
import subprocess
from pathlib import Path

import pytest

from circuitax.commands import changes
from circuitax.records.claim_changes import read_changes

ROOT = Path(__file__).parents[2]
SINCE, ROWS = read_changes(ROOT / "docs" / "claim_changes.toml")


def in_git(commit: str) -> bool:
    if shutil.which("git") is None:
        return False
    command = ["git", "cat-file", "-e", f"{commit}^{{commit}}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not in_git(SINCE), reason="git does not have the last release here")
def test_no_difference_lacks_a_row() -> None:
    assert changes.missing_rows() == [], "python -m experiments.changes lists them"


def test_a_release_that_git_does_not_have_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(changes, "read_changes", lambda path: ("0123456789abcdef", []))
    assert changes.main([]) == 2
    assert "since=0123456789abcdef must be a commit" in capsys.readouterr().err
    assert changes.main(["--help"]) == 0
