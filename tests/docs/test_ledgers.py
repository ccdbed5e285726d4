"""The tables of coverage and of errata are complete, and nothing they point at is missing."""

import ast
import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POINTER = re.compile(r"`([\w/.]+\.py)::(\w+)`")
SOURCES = ("S0", "S1", "S2", "S3", "S4")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def source_items() -> list[list[str]]:
    """Source, kind, number, beginning and row of every item of the sources."""
    table = Path(__file__).with_name("source_items.tsv").read_text(encoding="utf-8")
    return [line.split("\t") for line in table.splitlines()[1:]]


def rows(page: str) -> list[list[str]]:
    """The cells of every table row of a page, header and rule left out."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    table = [line for line in lines if line.startswith("|")]
    cells = [[c.strip() for c in line.strip("|").split(" | ")] for line in table]
    return [row for row in cells if not set(row[0]) <= set("-: |") and row[0] not in {"item", "#"}]


def names_defined_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def dangling(cell: str, base: Path) -> list[str]:
    """The pointers of a cell that lead nowhere; those to an experiment begin at the root."""
    lost = []
    for file, name in POINTER.findall(cell):
        path = (ROOT if file.startswith("experiments/") else base) / file
        if not path.exists() or name not in set(names_defined_in(path)):
            lost.append(f"{file}::{name}")
    return lost


def test_coverage_has_every_item_of_the_sources_once() -> None:
    listed = [row[0] for row in rows("coverage.md")]
    required = {row for *_, row in source_items() if row[:2] in SOURCES}
    assert sorted(required - set(listed)) == [], "missing rows"
    assert sorted(set(listed) - required) == [], "rows that no source has"
    assert len(set(listed)) == len(listed), "an item is listed twice"


def test_every_item_of_the_sources_has_a_row_or_a_word() -> None:
    words = re.findall(r"^\| \*\*(.*?)\*\*", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    for source, kind, number, begins, row in source_items():
        if row[:2] not in SOURCES:
            frame = kind == "heading" and row == "—"  # introductions and conclusions
            assert frame or row.removeprefix("glossary: ") in words, (source, kind, number, begins)
    facts = [row for _, kind, *_, row in source_items() if kind == "fact"]
    derived = {row for _, kind, *_, row in source_items() if kind != "fact"}
    assert len(set(facts)) == len(facts) and not derived & set(facts)


@pytest.mark.skipif("CIRCUITAX_SOURCES" not in os.environ, reason="no folder of the five sources")
def test_the_items_are_those_that_the_text_of_the_sources_has() -> None:
    place = Path(__file__).with_name("derive_items.py")
    spec = importlib.util.spec_from_file_location("derive_items", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    derived = [list(item) for item in module.derive(Path(os.environ["CIRCUITAX_SOURCES"]))]
    assert len(derived) > 350
    assert derived == [item[:4] for item in source_items() if item[1] != "fact"]


@pytest.mark.parametrize("row", rows("coverage.md"), ids=lambda row: row[0])
def test_coverage_points_at_what_exists(row: list[str]) -> None:
    item, function, test, figure, explained = row
    assert LINK.search(explained), f"{item}: {explained!r} links to no page"
    for cell, base in [(function, ROOT / "src/circuitax"), (test, ROOT)]:
        assert POINTER.search(cell), f"{item}: {cell!r} points at nothing"
        assert dangling(cell, base) == [], item
    picture = LINK.search(figure)
    if picture:
        assert (ROOT / "docs" / picture[1]).is_file(), f"{item}: no picture {picture[1]}"
    elif figure != "—":
        names = [name.strip("`") for name in figure.split()]
        for name in names:
            found = name in EXPERIMENTS
            assert found, f"{item}: no experiment {name}"


def test_errata_has_every_row_and_its_tests() -> None:
    numbers = {row[0]: row for row in rows("errata.md")}
    assert list(numbers) == [f"E{i}" for i in range(1, len(numbers) + 1)] and len(numbers) >= 44
    assert f"E1 to E{len(numbers)}" in (ROOT / "docs/errata.md").read_text()
    for number, row in numbers.items():
        cell = row[-1]
        assert POINTER.search(cell), f"{number} names no test"
        assert dangling(cell, ROOT) == [], number


EXPERIMENTS = {path.parent.name for path in (ROOT / "experiments").glob("*/*/experiment.py")}
METHODS = sorted((ROOT / "docs/methods").glob("*.md"))
PAGES = [
    *METHODS,
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
]
FILE = re.compile(r"`([a-z_/]+/)?([a-z_]+\.py)")


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path) if path else page
        assert other.exists(), f"no page {target}"
        assert not anchor or anchor in anchors(other), f"no heading {target}"


@pytest.mark.parametrize(
    "place",
    [
        "docs/methods/path-ledger.md",
        "docs/methods/pentagon.md",
        "results/gallery/superposition.md#pentagon",
        "results/gallery/induction.md#induction_phase",
    ],
)
def test_three_links_lead_from_the_readme_to_what_a_newcomer_looks_for(place: str) -> None:
    seen = {"README.md"}
    for _ in range(3):
        pages = {ROOT / page.partition("#")[0] for page in seen}
        seen |= {
            os.path.relpath(page.parent / target, ROOT)
            for page in pages
            if page.suffix == ".md"
            for target in LINK.findall(page.read_text())
            if not target.startswith(("http", "#"))
        }
    assert place in seen


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_functions_that_a_page_names_exist(page: Path) -> None:
    if page.stem not in {
        "attacks",
        "coverage",
        "errata",
        "promises",
    }:  # which have tests of their own
        assert dangling(page.read_text(), ROOT / "src/circuitax") == []


@pytest.mark.parametrize("page", METHODS, ids=lambda page: page.stem)
def test_a_method_points_at_what_exists(page: Path) -> None:
    text = page.read_text()
    source = ROOT / "src/circuitax"
    for folder, name in FILE.findall(text):
        # A name without its folder is a neighbour of the one before it.
        base = ROOT if folder.startswith(("experiments/", "tests/")) else source
        found = list(base.glob(f"{folder}{name}" if folder else f"**/{name}"))
        assert found, f"no file {folder}{name}"
    for experiments in re.findall(r"\*\*See\*\* ([^.]+)\.", text):
        for name in re.findall(r"`(\w+)`", experiments):
            assert name in EXPERIMENTS, f"no experiment {name}"
