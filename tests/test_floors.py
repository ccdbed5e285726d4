"""Imports point down one list of floors (docs/architecture.md); this test reads them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOOR = {
    "kernel": 0,
    "models": 1,
    "data": 1,
    "circuits": 2,
    "superposition": 2,
    "projection": 2,
    "training": 3,
    "records": 4,
    "figures": 5,
    "config": 6,
    "lab": 6,
    "kit": 6,
    "experiments": 7,
}
# Third parties that live on some floors only.
HOME = {
    "flax": {"models"},
    "hydra": {"config", "experiments"},
    "omegaconf": {"config", "experiments"},
    "matplotlib": {"figures"},
    "orbax": {"training"},
    "xarray": {"records", "figures", "experiments"},
    "tqdm": {"lab", "experiments"},
    "optax": {"circuits", "superposition", "projection", "training"},
    "scipy": {"circuits", "superposition", "projection", "records", "data", "experiments"},
}
# Records and figures are read and drawn on machines without JAX.
WITHOUT_JAX = {"records", "figures"}
SOURCES = sorted([*(ROOT / "src/circuitax").rglob("*.py"), *(ROOT / "experiments").rglob("*.py")])


def floor_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return "experiments" if parts[0] == "experiments" else parts[2].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the floor"
            yield node.module or ""


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    here = floor_of(path)
    if here == "__init__":
        assert not list(imports(path)), "the package root imports nothing"
        return
    for name in imports(path):
        top, *rest = name.split(".")
        if top == "circuitax" and rest:
            there = rest[0]
            assert FLOOR[there] <= FLOOR[here], f"{here} must not import {name}"
        elif top == "experiments":
            assert here == "experiments", f"{here} must not import {name}"
        if top in HOME:
            assert here in HOME[top], f"{name} is imported on {here}, its floors are {HOME[top]}"
        if here in WITHOUT_JAX:
            assert top not in {"jax", "jaxtyping", "flax", "optax"}, f"{here} must work without JAX"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_house_style(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    lines = text.count("\n") + 1
    assert lines <= 400, f"{path.name} has {lines} lines; one idea a file, 400 at most"
    assert path.name != "utils.py", "name a file by its noun"
    assert ast.get_docstring(tree), f"{path} needs a module docstring"
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Assert), f"{path}: raise an error that names the argument"
        if isinstance(node, ast.ImportFrom):
            assert node.module != "__future__", f"{path}: jaxtyping reads annotations, keep them"


def test_package_roots_import_nothing() -> None:
    for init in SOURCES:
        if init.name == "__init__.py":
            assert not list(imports(init)), f"{init} must import nothing"
