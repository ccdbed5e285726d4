"""The pictures of the pages are what their code draws, and every page that teaches has one."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "pictures"
# Sketches and badges, written by hand.
BY_HAND = {"rows", "frozen", "gauge", "badge-licence", "badge-python", "badge-version"}
DRAWN = sorted({path.stem for path in FOLDER.glob("*.svg")} - BY_HAND)


@pytest.fixture(scope="module")
def draw() -> ModuleType:
    """The program that draws, which is in no package."""
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("draw", FOLDER / "draw.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


def words(path: Path) -> list[str]:
    """What is written in a picture: Matplotlib keeps each text beside its outlines."""
    return re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_every_picture_has_its_code_and_a_page(draw: ModuleType) -> None:
    assert sorted(draw.pictures()) == DRAWN
    pages = [*DOCS.glob("*.md"), *DOCS.glob("methods/*.md")]
    shown = set()
    for page in pages:
        shown |= set(re.findall(r"pictures/([\w-]+)\.svg", page.read_text(encoding="utf-8")))
    assert sorted(set(DRAWN) - shown) == [], "pictures that no page shows"


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_says_what_its_code_computes(name: str, draw: ModuleType, tmp_path: Path) -> None:
    draw.save(name, tmp_path / "again.svg")
    said = words(FOLDER / f"{name}.svg")
    assert said and words(tmp_path / "again.svg") == said
