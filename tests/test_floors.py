"""Imports point down one list of floors (docs/architecture.md); these tests read them.

Each rule is a function from source files to sentences, one for every breach. A test that fails
prints them all.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parent.parent
FLOOR = {
    "cores": 0,
    "names": 0,
    "display": 0,
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
    "commands": 6,
    "experiments": 7,
}
# Third parties that live on some floors only.
HOME = {
    "flax": {"models"},
    "hydra": {"config", "commands"},
    "omegaconf": {"config", "lab", "commands"},
    "submitit": {"commands"},
    "matplotlib": {"figures", "experiments"},
    "jinja2": {"records"},
    "orbax": {"training"},
    "flint": {"superposition"},
    "xarray": {"records", "figures", "lab", "kit", "commands", "experiments"},
    "treescope": {"kernel"},
    "tqdm": {"circuits", "lab", "commands", "experiments"},
    "optax": {"circuits", "superposition", "projection", "training"},
    "scipy": {"circuits", "superposition", "projection", "records", "data", "kit", "experiments"},
}
# Importing any of these imports JAX.
JAX = {"jax", "jaxlib", "jaxtyping", "flax", "optax", "orbax", "chex"}
# Records are read and figures drawn on machines without JAX, and claims settled there.
WITHOUT_JAX = {"display", "records", "figures"}
# Files of an experiment that see nothing but its finished run.
READERS = {"readings"}
# The folder of a chapter that its experiments may import.
SHARED = "shared"
# The folder beside the chapters, which measures time and is no experiment.
BENCHMARKS = "benchmarks"
ENTRY_LINES = 30
# Holds the class by which an experiment's __init__.py declares it.
DECLARATION = "circuitax.config.catalogue"
# Files whose classes still describe a field below it, where `help` does not look.
DESCRIBED_BELOW = {"frozen.py", "expansion.py", "layer.py"}

Sources = dict[PurePosixPath, ast.Module]
Rule = Callable[[Sources], Iterator[str]]


def parsed(texts: dict[str, str]) -> Sources:
    return {PurePosixPath(name): ast.parse(text) for name, text in texts.items()}


def house() -> dict[str, str]:
    files = [*(ROOT / "src/circuitax").rglob("*.py"), *(ROOT / "experiments").rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted(files)}


def floor_of(path: PurePosixPath) -> str:
    return "experiments" if path.parts[0] == "experiments" else path.parts[2].removesuffix(".py")


def is_reader(path: PurePosixPath) -> bool:
    return own_folder(path) is not None and path.stem.split("_")[0] in READERS


def own_folder(path: PurePosixPath) -> tuple[str, ...] | None:
    """The folder of an experiment, or what a chapter shares; None for commands and for chapters."""
    if path.parts[0] != "experiments" or len(path.parts) < 3:
        return None
    if path.parts[1] == BENCHMARKS:
        return (BENCHMARKS,)
    deep = len(path.parts) > 3 or (path.name == "__init__.py" and path.parent.name == SHARED)
    return path.parts[1 : 3 if deep else 2]


def imports(tree: ast.AST) -> Iterator[str]:
    """Names of all imported modules, ``from a import b`` as ``a`` and as ``a.b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_at_once(tree: ast.Module) -> Iterator[str]:
    """What is imported when the module is, not later inside a function, nor for types only."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from imports(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting.extend(ast.iter_child_nodes(node))


def module_file(name: str, sources: Sources) -> PurePosixPath | None:
    """The file of an imported name, if it is one of the sources."""
    top, *rest = name.split(".")
    base = PurePosixPath("src/circuitax" if top == "circuitax" else top, *rest)
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate in sources:
            return candidate
    return None


def way_to_jax(start: PurePosixPath, sources: Sources) -> list[str] | None:
    """The chain of files by which importing one imports JAX; None when it does not."""
    ways = {start: [str(start)]}
    waiting = [start]
    while waiting:
        path = waiting.pop()
        for name in imports_at_once(sources[path]):
            if name.split(".")[0] in JAX:
                return [*ways[path], name]
            there = module_file(name, sources)
            if there is not None and there not in ways:
                ways[there] = [*ways[path], str(there)]
                waiting.append(there)
    return None


def imports_point_down(sources: Sources) -> Iterator[str]:
    for path, tree in sources.items():
        here = floor_of(path)
        if here == "__init__":  # the public face, which imports when a name is asked for
            continue
        if here not in FLOOR:
            yield f"{path} stands on no floor"
            continue
        for name in sorted(set(imports(tree))):
            top, *rest = name.split(".")
            if top == "circuitax" and rest and FLOOR.get(rest[0], 0) > FLOOR[here]:
                yield f"{path} is on floor {FLOOR[here]} and must not import {name}"
            if top == "experiments" and here != "experiments":
                yield f"{path} belongs to the library and must not import {name}"
            if top in HOME and here not in HOME[top]:
                yield f"{path} imports {name}, which lives on {sorted(HOME[top])}"


def package_roots_import_nothing(sources: Sources) -> Iterator[str]:
    """But for the face of the library, and what an experiment declares itself with."""
    for path, tree in sources.items():
        if path.name == "__init__.py":
            face = path == PurePosixPath("src/circuitax/__init__.py")
            declares = path.with_name("experiment.py") in sources
            for name in imports_at_once(tree) if face else imports(tree):
                stdlib = face and name.split(".")[0] in sys.stdlib_module_names
                declared = declares and name.removesuffix(".Experiment") == DECLARATION
                lazy = name in {"lazy_loader", "pkgutil"} or name.startswith("circuitax.names")
                if not stdlib and not declared and not lazy:
                    yield f"{path} must not import {name}"


def readers_work_without_jax(sources: Sources) -> Iterator[str]:
    for path in sources:
        if floor_of(path) in WITHOUT_JAX or is_reader(path):
            way = way_to_jax(path, sources)
            if way is not None:
                yield f"{' -> '.join(way)}: must work without JAX"


def experiments_stand_alone(sources: Sources) -> Iterator[str]:
    """An experiment imports itself and what its chapter shares, which imports no experiment."""
    folders = {own_folder(path) for path in sources if path.name == "experiment.py"}
    for path, tree in sources.items():
        own = own_folder(path)
        if own is None:
            continue
        shared = len(own) == 2 and own[1] == SHARED
        benchmark = own == (BENCHMARKS,)
        if own not in folders and not shared and not benchmark and path.name != "__init__.py":
            yield f"{path} is in a folder without experiment.py"
        for name in sorted(set(imports(tree))):
            parts = name.split(".")
            if parts[0] != "experiments" or len(parts) < 2:
                continue
            inside = tuple(parts[1 : 1 + len(own)]) == own
            if not inside and parts[1:3] != [own[0], SHARED]:
                yield f"{path} must not import {name}; a chapter shares what stands in {SHARED}/"
            elif parts[-1].split("_")[0] in READERS and not is_reader(path):
                yield f"{path} computes and must not import {name}, which reads the record"
        drawn = shared or benchmark or is_reader(path)
        if not drawn:
            for name in imports(tree):
                if name.split(".")[0] == "matplotlib":
                    yield f"{path} must not import {name}; figures are drawn in readings.py"


def no_circles(sources: Sources) -> Iterator[str]:
    """Modules import each other in no circle, late imports included; packages' roots lend names."""
    files = {path: tree for path, tree in sources.items() if path.name != "__init__.py"}
    graph = {
        path: {there for name in imports(tree) if (there := module_file(name, files)) is not None}
        for path, tree in files.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"{' -> '.join(map(str, error.args[1]))}: a circle of imports"


def entries_are_thin(sources: Sources) -> Iterator[str]:
    for path, tree in sources.items():
        if path.parts[0] == "experiments" and len(path.parts) == 2 and path.name != "__init__.py":
            lines = max((node.end_lineno or 0 for node in tree.body), default=0)
            if lines > ENTRY_LINES:
                yield f"{path} has {lines} lines; an entry calls circuitax.commands, and no more"


def house_style(sources: Sources) -> Iterator[str]:
    for path, tree in sources.items():
        lines = max((node.end_lineno or 0 for node in tree.body), default=0)
        if lines > 450:
            yield f"{path} has {lines} lines; one idea a file, 450 at most"
        if path.name == "utils.py":
            yield f"{path}: name a file by its noun"
        if not ast.get_docstring(tree):
            yield f"{path} needs a module docstring"
        if "pickle" in {name.split(".")[0] for name in imports(tree)}:
            yield f"{path} imports pickle, whose files run code when they are read"
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert):
                yield f"{path}:{node.lineno}: raise an error that names the argument, no assert"
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                yield f"{path}:{node.lineno}: jaxtyping reads annotations, keep them"
            if isinstance(node, ast.ImportFrom) and node.level:
                yield f"{path}:{node.lineno}: a relative import hides the floor"
            if isinstance(node, ast.ClassDef) and path.name not in DESCRIBED_BELOW:
                for field, after in pairwise(node.body):
                    if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
                        yield f"{path}:{after.lineno}: describe fields in Attributes, for `help`"


RULES: tuple[Rule, ...] = (
    imports_point_down,
    package_roots_import_nothing,
    readers_work_without_jax,
    experiments_stand_alone,
    no_circles,
    entries_are_thin,
    house_style,
)


@pytest.fixture(scope="module")
def sources() -> Sources:
    return parsed(house())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_the_rule(rule: Rule, sources: Sources) -> None:
    assert len(sources) > 150
    if found := sorted(set(rule(sources))):
        pytest.fail(
            "\n".join([f"{len(found)} breaches of {rule.__name__}:", *found]), pytrace=False
        )
