"""A new experiment runs at once, is found by every command, and writes over nothing."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from circuitax.commands import new, run
from circuitax.config import catalogue
from circuitax.lab.runs import finished_runs, verdicts

ROOT = Path(__file__).parents[2]


def test_what_is_written_runs_and_passes_its_own_test(
    tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    folder = tmp_path / "mine"
    assert new.main(["sign_lengths", f"folder={folder}"]) == 0
    out = capsys.readouterr().out
    assert "experiment=sign_lengths scale=tiny" in out and "figure.py" in out
    assert out.splitlines()[-1].endswith("mine/tests/test_sign_lengths.py")
    monkeypatch.setenv(catalogue.VARIABLE, str(folder))
    assert run.main(["experiment=sign_lengths", "scale=tiny"]) == 0
    (done,) = finished_runs("sign_lengths")
    assert (done / "figures" / "stretch.png").stat().st_size > 5_000
    assert [item.claim.id for item in verdicts(done)] == ["sign-lengths-unbiased"]
    python = [sys.executable, "-m"]
    # As from a checkout, whose settings are these, and from elsewhere than the folder.
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={folder}"]
    tested = [*python, "pytest", *options, str(folder / "tests")]
    subprocess.run(tested, cwd=tmp_path, check=True, capture_output=True)
    for command in (
        # Which imports are the project's own depends on where the folder is: not their order.
        [*python, "ruff", "check", "--config", str(ROOT / "pyproject.toml"), "--ignore=I001", "."],
        [*python, "ruff", "format", "--check", "--config", str(ROOT / "pyproject.toml"), "."],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def test_in_the_checkout_it_stands_where_experiments_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "experiments").mkdir()
    monkeypatch.setattr(new, "checkout", lambda: tmp_path)
    monkeypatch.setattr(new, "discover", dict)
    written = {path.relative_to(tmp_path).as_posix() for path in new.new_experiment("my_idea")}
    assert written == {
        *(f"experiments/my_idea/{part}.py" for part in ("__init__", "experiment", "claims")),
        *(f"experiments/my_idea/{part}.py" for part in ("measures", "figure")),
        "conf/experiment/my_idea.yaml",
        "tests/experiments/test_my_idea.py",
    }
    test = (tmp_path / "tests/experiments/test_my_idea.py").read_text()
    assert "from experiments.my_idea.experiment import Spec, run" in test

    of_a_chapter = new.new_experiment("my_path", chapter="paths")
    names = {path.relative_to(tmp_path).as_posix() for path in of_a_chapter}
    assert {"experiments/paths/my_path/claims.py", "conf/experiment/my_path.yaml"} < names
    test = (tmp_path / "tests/experiments/paths/test_my_path.py").read_text()
    assert "from experiments.paths.my_path.experiment import Spec, run" in test


@pytest.mark.parametrize(
    "name",
    ["My_idea", "two words", "9lives", "class", "run", "paths", "_x", "claims", "gallery"],
)
def test_a_name_that_cannot_be_is_refused(name: str, capsys: pytest.CaptureFixture) -> None:
    assert new.main([name]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: NAME={name} must be") and err.count("\n") == 1


def test_nothing_is_written_over(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert new.main(["toy_intro"]) == 2
    assert "NAME=toy_intro must be new" in capsys.readouterr().err
    kept = tmp_path / "conf" / "experiment" / "mine.yaml"
    kept.parent.mkdir(parents=True)
    kept.write_text("mine: 1\n")
    assert new.main(["mine", f"folder={tmp_path}"]) == 2
    assert kept.read_text() == "mine: 1\n" and not (tmp_path / "mine").exists()
    assert new.main(["mine", "fodler=x"]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert new.main(["mine", "chapter=path"]) == 2
    assert "chapter=path must be one of paths, one_layer" in capsys.readouterr().err
    assert new.main([]) == 2 and new.main(["--help"]) == 0


def test_a_folder_that_cannot_be_made_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "mine"
    assert new.main(["mine", f"folder={below}"]) == 2
    said = capsys.readouterr().err
    assert said == f"error: folder={below} cannot be written (Not a directory)\n"


def test_a_checkout_that_cannot_be_written_has_another_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def refuse(path: Path, text: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(new, "write_text", refuse)
    assert new.main(["mine_for_the_test"]) == 2
    assert capsys.readouterr().err == (
        "error: the checkout cannot be written (Permission denied): name another place with "
        "folder=FOLDER\n"
    )
