"""Every promise about runs, and every attack on them, names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = re.compile(r"`([\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize(("name", "least"), [("promises", 30), ("attacks", 20)])
def test_every_promise_names_tests_that_exist(name: str, least: int) -> None:
    page = (ROOT / "docs" / f"{name}.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and "---" not in line]
    promises = [row for row in rows if not row.startswith(("| Promise", "| Attack"))]
    assert len(promises) > least
    assert [row for row in promises if not TESTS.search(row)] == []
    missing = [
        f"{file}::{test}" for file, test in TESTS.findall(page) if test not in functions_of(file)
    ]
    assert missing == []


def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
