"""Plant a known bug in a copy of the package, and see the tests of its own module fail.

The copy wins over the editable install because PYTHONPATH comes first. ``make mutants`` runs the
bugs; ``make test`` only sees that they still fit.
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

import pytest

ROOT = Path(__file__).parents[2]
MUTANTS = runpy.run_path(str(Path(__file__).with_name("mutants.py")))["MUTANTS"]
PACKAGES = ("kernel", "circuits", "superposition")
# A bug has to be noticed by an assertion; code that merely crashes is no plausible bug.
ASSERTED = re.compile(r"^FAILED \S+ - (AssertionError|assert |Failed: DID NOT RAISE)", re.MULTILINE)


def place_of(old: str) -> Path:
    """The file below src/circuitax that holds a text, once."""
    package = ROOT / "src" / "circuitax"
    paths = [path for name in PACKAGES for path in sorted((package / name).rglob("*.py"))]
    found = [
        path.relative_to(package) for path in paths for _ in range(path.read_text().count(old))
    ]
    if len(found) != 1:
        raise ValueError(f"{old!r} occurs {len(found)} times in {', '.join(PACKAGES)}, not once")
    return found[0]


def own_tests(place: Path) -> Path:
    """The tests of a module, in the folder of its package or below it."""
    names = [place.parent, Path(place.parts[0])]
    paths = [ROOT / "tests" / folder / f"test_{place.name}" for folder in names]
    return next(path for path in paths if path.is_file())


def run_with(name: str, folder: Path) -> str:
    """What pytest prints about a copy of the package with one bug."""
    old, new = MUTANTS[name]
    copy = shutil.copytree(ROOT / "src" / "circuitax", folder / "circuitax")
    path = copy / place_of(old)
    path.write_text(path.read_text().replace(old, new))
    # No shape checks: a bug has to be caught by a number, not by a jaxtyping annotation.
    options = ["-x", "-q", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(
        [*command, str(own_tests(place_of(old)))],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def printed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[str]]]:
    """The runs of the bugs that this session selected, all started, none waited for."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    chosen = [spec.params["name"] for spec in specs if spec and "name" in spec.params]
    pool = ThreadPoolExecutor(os.cpu_count())
    folders = {name: tmp_path_factory.mktemp(name) for name in chosen}
    yield {name: pool.submit(run_with, name, folder) for name, folder in folders.items()}
    pool.shutdown(cancel_futures=True)


@pytest.mark.mutant
@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name: str, printed: dict[str, Future[str]]) -> None:
    said = printed[name].result()
    assert ASSERTED.search(said), f"{name} survived, or crashed:\n{said[-3000:]}"


def test_every_mutant_fits_and_a_stale_one_says_so() -> None:
    assert len(MUTANTS) <= 40
    for old, new in MUTANTS.values():
        assert old != new and own_tests(place_of(old))
    with pytest.raises(ValueError, match="occurs 0 times"):
        place_of("text that is not there")
