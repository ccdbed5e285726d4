"""Every page of a method has the same parts, and its example prints what the page says."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs/methods"
PAGES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted(FOLDER.glob("*.md"))
    if path.stem != "README"
}
PARTS = (
    "Question",
    "Layout",
    "Formula",
    "Code",
    "Misleads",
    "Cost",
    "Exactness",
    "Example",
    "Source",
)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_every_part_once(name: str) -> None:
    parts = re.findall(r"^\*\*(\w+)\.\*\* \S", PAGES[name], flags=re.MULTILINE)
    assert {part: parts.count(part) for part in PARTS} == dict.fromkeys(PARTS, 1)
    order = [part for part in parts if part in ("Question", "Layout", "Formula")]
    assert order == ["Question", "Layout", "Formula"], "rows and columns stand at the head"
    pictures = re.findall(r"!\[([^]]{20,})\]\(([^)]+)\)", PAGES[name])
    assert pictures and all((FOLDER / place).is_file() for _, place in pictures)
    assert "**See** `" in PAGES[name], "the experiment that shows the method at work"


def test_the_index_names_every_page() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\(([\w-]+)\.md\)", index)) == sorted(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_an_example_prints_what_its_page_says(name: str) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGES[name], flags=re.DOTALL)
    lines = [line for line in code.splitlines() if line]
    assert len(lines) <= 10 and "import circuitax as cx" in lines
    assert max(map(len, lines)) <= 100, "no line is cut on the page"
    said = re.findall(r"# → (.*)", code)
    with redirect_stdout(StringIO()) as out:
        exec(compile(code, f"{name}.md", "exec"), {})
    assert out.getvalue().splitlines() == said and said
