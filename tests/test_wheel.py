"""The wheel holds the library and nothing else, and the README's code runs from it."""

import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
pytestmark = pytest.mark.slow


def checked(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the source, where no earlier build has left files."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        copy(ROOT / name, source)
    left_out = ignore_patterns("__pycache__", "*.egg-info")
    for name in ("src", "experiments"):
        copytree(ROOT / name, source / name, ignore=left_out)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    checked(sys.executable, "-m", "pip", "wheel", *options, "-w", "built", ".", cwd=source)
    (found,) = (source / "built").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the wheel, and with the third parties of this one, but not its checkout."""
    folder = tmp_path_factory.mktemp("environment")
    checked(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin/python"
    options = ["--no-deps", "--no-index", "--quiet"]
    checked(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, cwd=folder)
    # A folder named in a .pth file joins sys.path, but .pth files inside of it are not read, so
    # neither the editable install nor the checkout comes along.
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "third_parties.pth").write_text("\n".join(sorted(paths)) + "\n")
    return python


def test_the_wheel_holds_every_file_of_the_library_and_no_other(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"circuitax"}
    source = ROOT / "src"
    files = [
        path.relative_to(source).as_posix()
        for path in (source / "circuitax").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    ]
    assert len(files) > 100 and "circuitax/py.typed" in files
    assert sorted(name for name in names if ".dist-info/" not in name) == sorted(files)


def test_the_readme_runs_from_the_wheel(python: Path, tmp_path: Path) -> None:
    script = tmp_path / "readme.py"
    blocks = [f"exec(compile({block!r}, 'README.md', 'exec'), {{}})" for block in BLOCKS]
    where = [
        "import importlib.util, circuitax",
        "print(circuitax.__file__)",
        "print(importlib.util.find_spec('experiments'))",
    ]
    script.write_text("\n".join([*blocks, *where]) + "\n")
    models = "tests/fixtures/transformer_lens"  # one of them is loaded
    copytree(ROOT / models, tmp_path / models)
    # -I: neither PYTHONPATH nor the folder of the script counts
    *printed, package, experiments = checked(python, "-I", script, cwd=tmp_path).splitlines()
    assert len(printed) >= len(BLOCKS) >= 2
    assert Path(package).is_relative_to(python.parents[1])
    assert experiments == "None"


def test_without_a_checkout_the_experiments_are_asked_for(python: Path, tmp_path: Path) -> None:
    code = "from circuitax.config.catalogue import checkout; checkout()"
    done = subprocess.run(
        [python, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "ValueError: experiments must be" in done.stderr
