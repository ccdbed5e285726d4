"""Every promise about runs names tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text()
TESTS = re.compile(r"`([\w/]+\.py)::(\w+)`")


def test_every_promise_names_tests_that_exist() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "---" not in line]
    promises = [row for row in rows if not row.startswith("| Promise")]
    assert len(promises) > 30
    assert [row for row in promises if not TESTS.search(row)] == []
    missing = [
        f"{file}::{name}" for file, name in TESTS.findall(PAGE) if name not in functions_of(file)
    ]
    assert missing == []


def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
