"""Plant a known bug in a copy of the package, and see the named tests fail.

The copy wins over the editable install because PYTHONPATH comes first. A process each, so that no
patched module reaches another test; as many at a time as there are cores, all with the session's
compilation cache. ``make mutants`` runs the bugs; ``make test`` only sees that they still fit.
"""

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MUTANTS = runpy.run_path(str(Path(__file__).with_name("mutants.py")))["MUTANTS"]
FAILED, PASSED = 1, 0  # pytest's exit codes; 2 and above mean that the tests did not run
# a bug has to be noticed by an assertion; code that merely crashes is no plausible bug
ASSERTED = re.compile(r"^FAILED \S+ - (AssertionError|assert |Failed: DID NOT RAISE)", re.MULTILINE)
Outcome = subprocess.CompletedProcess[str]


def copy_package(folder: Path) -> Path:
    return Path(shutil.copytree(ROOT / "src/circuitax", folder / "circuitax"))


def plant(package: Path, mutant: Any) -> None:
    path = package / mutant.file
    text = path.read_text()
    if (found := text.count(mutant.old)) != 1:
        raise ValueError(f"{mutant.old!r} occurs {found} times in {mutant.file}, not once")
    path.write_text(text.replace(mutant.old, mutant.new))


def run(package: Path, nodes: list[str]) -> Outcome:
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


def run_with(mutant: Any, folder: Path) -> Outcome:
    package = copy_package(folder)
    plant(package, mutant)
    return run(package, list(mutant.nodes))


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Outcome]]]:
    """The runs of the mutants that this session selected, all started, none waited for."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    chosen = [spec.params["mutant"] for spec in specs if spec and "mutant" in spec.params]
    pool = ThreadPoolExecutor(os.cpu_count())
    yield {
        mutant.name: pool.submit(run_with, mutant, tmp_path_factory.mktemp(mutant.name))
        for mutant in chosen
    }
    pool.shutdown(cancel_futures=True)


@pytest.mark.mutant
def test_the_same_tests_pass_on_an_unpatched_copy(
    tmp_path: Path, outcomes: dict[str, Future[Outcome]]
) -> None:
    nodes = sorted({node for mutant in MUTANTS for node in mutant.nodes})
    result = run(copy_package(tmp_path), nodes)
    assert result.returncode == PASSED, f"{result.stdout}{result.stderr}"


@pytest.mark.mutant
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Any, outcomes: dict[str, Future[Outcome]]) -> None:
    result = outcomes[mutant.name].result()
    assert result.returncode == FAILED, f"{mutant.name} survived:\n{result.stdout}{result.stderr}"
    assert ASSERTED.search(result.stdout), f"{mutant.name} crashed instead:\n{result.stdout}"


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


def test_every_mutant_fits_its_file_and_its_tests_and_a_stale_one_says_so(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    for mutant in MUTANTS:
        text = (package / mutant.file).read_text()
        plant(package, mutant)
        (package / mutant.file).write_text(text)
        for file, _, test in (node.partition("::") for node in mutant.nodes):
            assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text(), mutant.name
    stale = MUTANTS[0]._replace(old="text that is not there")
    with pytest.raises(ValueError, match="occurs 0 times in kernel/spectrum"):
        plant(package, stale)


def test_every_mutant_has_its_own_name() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 12
