"""Provenance names the commit and never the machine."""

import subprocess
from pathlib import Path

from circuitax.lab.source import (
    checkout_state,
    package_versions,
    typed_command,
)


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


def test_dirty_looks_at_what_results_depend_on(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("a = 1\n")
    (tmp_path / "README.md").write_text("read me\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    commit, dirty = checkout_state(tmp_path)
    assert commit is not None and len(commit) == 40 and dirty is False
    (tmp_path / "README.md").write_text("read me again\n")
    assert checkout_state(tmp_path)[1] is False
    (tmp_path / "src" / "b.py").write_text("b = 1\n")
    assert checkout_state(tmp_path) == (commit, True)


def test_without_git_nothing_is_claimed(tmp_path: Path) -> None:
    assert checkout_state(tmp_path) == (None, None)


def test_commands_lose_machine_paths() -> None:
    typed = ["experiment=toy", "task.path=/home/someone/corpus", "/tmp/x/y", "rate=0.5"]
    assert typed_command("experiments.run", typed) == (
        "python -m experiments.run experiment=toy task.path=.../corpus .../y rate=0.5"
    )


def test_versions_are_those_installed() -> None:
    import jax

    assert package_versions()["jax"] == jax.__version__
