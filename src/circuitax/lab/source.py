"""Source and provenance of a result: modules with their hashes, commit, command and versions.

No host name and no path is kept.
"""

import ast
import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path, PurePath

import circuitax
from circuitax.config.catalogue import ExperimentEntry

# The libraries whose version may move a number.
LIBRARIES = ("jax", "jaxlib", "flax", "optax", "numpy", "scipy")
# What is imported and moves no number: reading of records, figures, commands.
NO_NUMBERS = ("commands", "config", "display", "figures", "records", "lab", "names")
# ... of which these do.
NUMBERS = ("lab.lab", "lab.loop", "lab.execute")
# Files of an experiment that see nothing but its finished run.
READERS = ("readings",)


def imported_modules(entries: Iterable[ExperimentEntry]) -> dict[str, str]:
    """Hash of every module imported by now that may move a number, and version of each library.

    ``entries`` are the experiment and those upstream: of other experiments nothing counts.
    """
    folders = {entry.folder for entry in entries}
    tops = {entry.package.partition(".")[0] for entry in entries}
    noted = {}
    for name, module in list(sys.modules.items()):
        path = Path(getattr(module, "__file__", None) or "")
        top, _, inner = name.partition(".")
        if path.suffix != ".py":
            continue
        if top == "circuitax":
            counts = inner in NUMBERS or not _below(inner, NO_NUMBERS)
        else:
            others = path.parent not in folders and (path.parent / "experiment.py").exists()
            counts = top in tops and not path.stem.startswith(READERS) and not others
        if counts:
            noted[name] = syntax_hash(path)
    return noted | {name: metadata.version(name) for name in LIBRARIES}


def changed_modules(noted: Mapping[str, str]) -> list[str]:
    """Names of noted modules and libraries that are not as they were noted."""
    return [name for name, mark in noted.items() if _mark(name) != mark]


def source_of(noted: Mapping[str, str]) -> str:
    """Twelve hexadecimal digits that identify noted modules."""
    text = "".join(f"{name} {mark}\n" for name, mark in sorted(noted.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def syntax_hash(path: Path) -> str:
    """Hash of a file's syntax tree: comments, docstrings and layout are not part of it."""
    return _tree_hash(path.read_text(encoding="utf-8"))


def source_hash(files: Iterable[Path]) -> str:
    """Hash of files, Python or other texts, and of all that reads records and draws."""
    library = Path(circuitax.__file__).parent
    shared = [path for name in ("records", "figures") for path in (library / name).rglob("*.py")]
    marks = [f"{path.name} {_file_hash(path)}" for path in sorted({*files, *shared})]
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:12]


def _file_hash(path: Path) -> str:
    if path.suffix == ".py":
        return syntax_hash(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _below(name: str, packages: Iterable[str]) -> bool:
    return any(name == item or name.startswith(f"{item}.") for item in packages)


def _mark(name: str) -> str:
    if name in LIBRARIES:
        return metadata.version(name)
    top, *parts = name.split(".")
    spec = importlib.util.find_spec(top)
    for place in (spec and spec.submodule_search_locations) or ():
        module = Path(place).joinpath(*parts)
        for path in (module / "__init__.py", module.with_suffix(".py")):
            if path.is_file():
                return syntax_hash(path)
    return ""


@lru_cache(maxsize=2048)
def _tree_hash(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


# Files that a result depends on: a changed README does not make a run dirty.
WATCHED = ("src", "experiments", "conf", "pyproject.toml", "constraints.txt")
PACKAGES = (
    "circuitax",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "numpy",
    "scipy",
    "xarray",
    "h5netcdf",
    "hydra-core",
)


def checkout_state(root: Path) -> tuple[str | None, bool | None]:
    """The commit of a checkout and whether watched files differ from it; None without git."""
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return None, None
    present = [name for name in WATCHED if (root / name).exists()]
    changed = _git(root, "status", "--porcelain", "--", *present)
    return commit, None if changed is None else bool(changed)


def package_versions() -> dict[str, str]:
    """Version of every package that could change a number, by name; absent ones are left out."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def typed_command(module: str, arguments: Sequence[str]) -> str:
    """``python -m module arguments`` with every absolute path cut to its last part."""
    return " ".join(["python -m", module, *(_without_path(item) for item in arguments)])


def _without_path(argument: str) -> str:
    name, equals, value = argument.partition("=")
    if not equals:
        name, value = "", argument
    if PurePath(value).is_absolute():
        value = f".../{PurePath(value).name}"
    return f"{name}{equals}{value}"


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
