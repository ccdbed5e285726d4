"""Plant a known bug in a copy of the package, and see the named tests fail.

The copy wins over the editable install because PYTHONPATH comes first. A subprocess each, so that
no patched module reaches another test.
"""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MUTANTS = runpy.run_path(str(Path(__file__).with_name("mutants.py")))["MUTANTS"]
FAILED, PASSED = 1, 0  # pytest's exit codes; 2 and above mean that the tests did not run
# a bug has to be noticed by an assertion; code that merely crashes is no plausible bug
ASSERTED = re.compile(r"^FAILED \S+ - (AssertionError|assert |Failed: DID NOT RAISE)", re.MULTILINE)


def copy_package(folder: Path) -> Path:
    return Path(shutil.copytree(ROOT / "src/circuitax", folder / "circuitax"))


def plant(package: Path, mutant: Any) -> None:
    path = package / mutant.file
    text = path.read_text()
    if (found := text.count(mutant.old)) != 1:
        pytest.fail(
            f"{mutant.name}: {mutant.old!r} occurs {found} times in {mutant.file}, not once"
        )
    path.write_text(text.replace(mutant.old, mutant.new))


def run(package: Path, nodes: list[str]) -> subprocess.CompletedProcess[str]:
    # no shape checks: a bug has to be caught by a number, not by a jaxtyping annotation
    options = ["-x", "-q", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *nodes],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(package.parent), "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Any, tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    plant(package, mutant)
    result = run(package, list(mutant.nodes))
    assert result.returncode == FAILED, f"{mutant.name} survived:\n{result.stdout}{result.stderr}"
    assert ASSERTED.search(result.stdout), f"{mutant.name} crashed instead:\n{result.stdout}"


@pytest.mark.slow
def test_the_same_tests_pass_on_an_unpatched_copy(tmp_path: Path) -> None:
    nodes = sorted({node for mutant in MUTANTS for node in mutant.nodes})
    result = run(copy_package(tmp_path), nodes)
    assert result.returncode == PASSED, f"{result.stdout}{result.stderr}"


def test_the_copy_is_what_gets_imported(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    found = subprocess.run(
        [sys.executable, "-c", "import circuitax; print(circuitax.__file__)"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()).parent == package


def test_every_mutant_has_its_own_name() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 12
