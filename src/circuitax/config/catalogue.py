"""The catalogue of experiments, read from their files without importing them."""

import ast
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Collection
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from circuitax.names import nearest
from circuitax.records import chapters

if TYPE_CHECKING:  # --help does not wait for xarray
    from circuitax.records.claims import Claim
    from circuitax.records.measured import Measured
    from circuitax.records.nulls import Nulls
    from circuitax.records.record import Record

# Folders of further experiments, beside the built-in ones: each holds one folder an experiment, and
# conf/experiment/<name>.yaml.
VARIABLE = "CIRCUITAX_EXPERIMENTS"
EXPERIMENT, CLAIMS, MEASURES, FIGURE = "experiment", "claims", "measures", "figure"
VIEWER = "viewer"
LAST = 1000  # place of an experiment that names none
# What an experiment takes that finds none of what it reads: the start, and figures without data.
IDLE_SECONDS = 10.0


class ExperimentEntry(NamedTuple):
    """One experiment: a folder with ``experiment.py`` and, beside it, claims, measures and figure.

    Attributes:
        name: The folder's name, which is the experiment's name.
        package: Name to import the folder by.
        folder: The folder.
        conf: Folder that holds ``experiment/<name>.yaml``.
        message: First line of the docstring of ``experiment.py``.
        requires: Experiments whose results it reads.
        budget_seconds: Expected seconds at quick scale on two cores; inf when not stated.
        evening_seconds: Expected seconds at evening scale; those at quick scale when not stated.
        paper_seconds: Expected seconds at paper scale; None when not stated.
        alone: Whether it measures time, so that nothing else may run beside it.
        needs_packages: Distributions without one of which it has nothing to read.
        chapter: The folder around the experiment's; empty where it stands in none.
        place: ``PLACE`` of the folder's ``__init__.py``, which orders a chapter.
    """

    name: str
    package: str
    folder: Path
    conf: Path
    message: str
    requires: tuple[str, ...]
    budget_seconds: float
    evening_seconds: float
    paper_seconds: float | None
    alone: bool = False
    needs_packages: tuple[str, ...] = ()
    chapter: str = ""
    place: int = LAST

    def seconds(self, scale: str) -> float | None:
        """Expected seconds at a scale on two cores; None if no time is stated.

        Where a package that it needs is not installed, these are `IDLE_SECONDS` at most.
        """
        stated = {
            "quick": self.budget_seconds,
            "evening": self.evening_seconds,
            "paper": self.paper_seconds,
        }.get(scale)
        if stated is None or stated == float("inf"):
            return None
        return stated if all(map(_installed, self.needs_packages)) else min(stated, IDLE_SECONDS)

    @property
    def path(self) -> Path:
        """The file that defines ``Spec`` and ``run``."""
        return self.file(EXPERIMENT)

    def file(self, part: str) -> Path:
        """One of the files of the folder, which may be missing."""
        return self.folder / f"{part}.py"

    def load(self, part: str = EXPERIMENT) -> ModuleType:
        """One of the folder's modules, imported."""
        place = str(self.folder.parents[self.package.count(".")])
        if not self.package.startswith("experiments.") and place not in sys.path:
            sys.path.append(place)
        return importlib.import_module(f"{self.package}.{part}")

    def load_claims(self) -> "tuple[Claim, ...]":
        """``CLAIMS`` of ``claims.py``; empty without that file."""
        return tuple(self.load(CLAIMS).CLAIMS) if self.file(CLAIMS).is_file() else ()

    def load_measure(self) -> "Callable[[Record], Measured]":
        """``measure(record)`` of ``measures.py``, or of ``claims.py`` where it is short."""
        for part in (MEASURES, CLAIMS):
            if self.file(part).is_file() and hasattr(module := self.load(part), "measure"):
                return cast("Callable[[Record], Measured]", module.measure)
        from circuitax.records.measured import Measured

        return lambda record: Measured({}, {})

    def load_nulls(self) -> "Callable[[Record], Nulls]":
        """``nulls(record)`` of the file that measures, which draws the nulls of claims; or none."""
        for part in (MEASURES, CLAIMS):
            if self.file(part).is_file() and hasattr(module := self.load(part), "nulls"):
                return cast("Callable[[Record], Nulls]", module.nulls)
        return lambda record: {}


def checkout() -> Path:
    """The folder that holds ``experiments/``, ``conf/`` and ``results/``.

    Raises:
        ValueError: If ``experiments`` cannot be imported: the wheel holds the library only.
    """
    spec = importlib.util.find_spec("experiments")
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(
            "experiments must be importable: use .venv/bin/python of a checkout (see make venv)"
        )
    return Path(next(iter(spec.submodule_search_locations))).resolve().parent


def no_experiment(name: str, entries: Collection[str]) -> str:
    """The end of the message about an experiment that is not there: the nearest, and all others."""
    elsewhere = f"{VARIABLE}=FOLDER finds those of another folder"
    return (
        f"is not an experiment{nearest(name, entries)}; {elsewhere}; there are "
        f"{', '.join(sorted(entries))}"
    )


def discover() -> dict[str, ExperimentEntry]:
    """Every experiment by name: folders whose ``experiment.py`` defines ``Spec`` and ``run``.

    They stand in the folders of chapters or beside them, and come in the order of
    `circuitax.records.chapters`.

    Raises:
        ValueError: If two folders have one name.
    """
    root = checkout()
    places = [(root / "experiments", "experiments.", root / "conf")]
    for text in os.environ.get(VARIABLE, "").split(os.pathsep):
        if text:
            place = Path(text).resolve()
            places.append((place, "", place / "conf"))
    found: dict[str, ExperimentEntry] = {}
    for place, prefix, conf in places:
        for path in (*place.glob(f"*/{EXPERIMENT}.py"), *place.glob(f"*/*/{EXPERIMENT}.py")):
            facts = _read(path.read_text(encoding="utf-8"))
            if facts is None:
                continue
            *chapter, name = path.parent.relative_to(place).parts
            if name in found:
                raise ValueError(f"experiment {name!r} is in two folders, it must be in one")
            package = prefix + ".".join((*chapter, name))
            place_in_chapter = _place(path.with_name("__init__.py"))
            found[name] = ExperimentEntry(
                name, package, path.parent, conf, *facts, "".join(chapter), place_in_chapter
            )
    return dict(sorted(found.items(), key=lambda item: _order(item[1])))


def _order(entry: ExperimentEntry) -> tuple[int, int, str]:
    known = entry.chapter in chapters.NAMES
    chapter = chapters.NAMES.index(entry.chapter) if known else len(chapters.NAMES)
    return chapter, entry.place, entry.name


def _place(package: Path) -> int:
    text = package.read_text(encoding="utf-8") if package.is_file() else ""
    return int(constant(_tree(text), "PLACE") or LAST)


@lru_cache(maxsize=256)
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def upstream_order(
    name: str, entries: dict[str, ExperimentEntry], path: tuple[str, ...] = ()
) -> list[str]:
    """The experiment and all its requirements, in topological order.

    Raises:
        ValueError: If a required experiment does not exist, or requires itself in the end.
    """
    if name in path:
        raise ValueError(f"requires={name!r} makes a circle: {' -> '.join((*path, name))}")
    if name not in entries:
        raise ValueError(f"requires={name!r} of {path[-1:]} is not an experiment")
    order: list[str] = []
    for upstream in entries[name].requires:
        for item in upstream_order(upstream, entries, (*path, name)):
            if item not in order:
                order.append(item)
    return [*order, name]


def extra_conf(entries: dict[str, ExperimentEntry]) -> list[Path]:
    """Folders of configuration beside the built-in one."""
    own = checkout() / "conf"
    return sorted({entry.conf for entry in entries.values() if entry.conf != own})


@lru_cache(maxsize=1024)  # every job of a sweep asks
def _read(
    text: str,
) -> tuple[str, tuple[str, ...], float, float, float | None, bool, tuple[str, ...]] | None:
    tree = ast.parse(text)
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if "Spec" not in classes or "run" not in functions:
        return None
    message = (ast.get_docstring(tree) or "").split("\n")[0]
    budget, paper = constant(tree, "BUDGET_SECONDS"), constant(tree, "PAPER_SECONDS")
    evening = constant(tree, "EVENING_SECONDS")
    quick = float("inf") if budget is None else float(budget)
    return (
        message,
        tuple(constant(tree, "requires") or ()),
        quick,
        quick if evening is None else float(evening),
        None if paper is None else float(paper),
        constant(tree, "ALONE") is True,
        tuple(constant(tree, "NEEDS_PACKAGES") or ()),
    )


def _installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def constant(tree: ast.Module, name: str) -> Any:
    """Value of a literal constant of a module; None if it is not defined."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return ast.literal_eval(value)
    return None
