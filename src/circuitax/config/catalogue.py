"""The catalogue of experiments, by what each declares, without importing JAX."""

import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, cast

from circuitax.names import nearest
from circuitax.records import chapters

if TYPE_CHECKING:  # --help does not wait for xarray and Matplotlib
    from circuitax.figures.spec import FigureSpec
    from circuitax.records.claims import Claim
    from circuitax.records.measured import Measured
    from circuitax.records.nulls import Nulls
    from circuitax.records.record import Record

# Folders of further experiments, beside the built-in ones: each holds one folder an experiment, and
# conf/experiment/<name>.yaml.
VARIABLE = "CIRCUITAX_EXPERIMENTS"
EXPERIMENT, CLAIMS, MEASURES, FIGURE = "experiment", "claims", "measures", "figure"
VIEWER = "viewer"
NOTES = "notes.md"
DECLARATION = "EXPERIMENT"
# Names by which figure.py declares its figures.
DECLARED, OF_SWEEPS = "FIGURES", "SWEEP_FIGURES"
LAST = 1000  # place of an experiment that names none
# What an experiment takes that finds none of what it reads: the start, and figures without data.
IDLE_SECONDS = 10.0


@dataclass(frozen=True)
class Experiment:
    """Declaration of an experiment: ``EXPERIMENT`` of its folder's ``__init__.py``.

    The first line of that file's docstring is its message. All seconds are on two cores.

    Attributes:
        place: Orders the experiments of a chapter.
        requires: Experiments whose results it reads.
        budget_seconds: Expected seconds at quick scale; None when not stated.
        evening_seconds: Expected seconds at evening scale; those at quick scale when None.
        paper_seconds: Expected seconds at paper scale; None when not stated.
        alone: Whether it measures time, so that nothing else may run beside it.
        needs_packages: Distributions without one of which it has nothing to read.
    """

    place: int = LAST
    requires: tuple[str, ...] = ()
    budget_seconds: float | int | None = None
    evening_seconds: float | int | None = None
    paper_seconds: float | int | None = None
    alone: bool = False
    needs_packages: tuple[str, ...] = ()


class ExperimentEntry(NamedTuple):
    """One experiment: a folder with ``experiment.py`` and, beside it, claims, measures and figure.

    Attributes:
        name: The folder's name, which is the experiment's name.
        package: Name to import the folder by.
        folder: The folder.
        conf: Folder that holds ``experiment/<name>.yaml``.
        message: First line of the docstring of the folder's ``__init__.py``.
        requires: As in `Experiment`, as all that follow but the chapter.
        budget_seconds: inf when not stated.
        evening_seconds: Those at quick scale when not stated.
        paper_seconds: None when not stated.
        alone: As in `Experiment`.
        needs_packages: As in `Experiment`.
        chapter: The folder around the experiment's; empty where it stands in none.
        place: As in `Experiment`.
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

    def load_figures(self, declared: str = DECLARED) -> "tuple[FigureSpec, ...]":
        """The figures that ``figure.py`` declares; empty without that file.

        Args:
            declared: ``FIGURES``, or ``SWEEP_FIGURES``, which few declare.
        """
        if not self.file(FIGURE).is_file():
            return ()
        module = self.load(FIGURE)
        return tuple(getattr(module, OF_SWEEPS, ()) if declared == OF_SWEEPS else module.FIGURES)

    @property
    def notes(self) -> str:
        """Markdown of ``notes.md``; empty without that file."""
        file = self.folder / NOTES
        return file.read_text(encoding="utf-8").strip() if file.is_file() else ""

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
    """Ending of the message about an unknown experiment: the nearest name, and all others."""
    elsewhere = f"{VARIABLE}=FOLDER finds those of another folder"
    return (
        f"is not an experiment{nearest(name, entries)}; {elsewhere}; there are "
        f"{', '.join(sorted(entries))}"
    )


def discover() -> dict[str, ExperimentEntry]:
    """Every experiment by name: folders with an ``experiment.py``.

    They stand in the folders of chapters or beside them, and come in the order of
    `circuitax.records.chapters`.

    Raises:
        ValueError: If two folders have one name, or one declares no ``EXPERIMENT``.
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
            *chapter, name = path.parent.relative_to(place).parts
            if name in found:
                raise ValueError(f"experiment {name!r} is in two folders, it must be in one")
            package = prefix + ".".join((*chapter, name))
            message, stated = _declared(path.with_name("__init__.py"))
            quick = float("inf" if stated.budget_seconds is None else stated.budget_seconds)
            evening, paper = stated.evening_seconds, stated.paper_seconds
            found[name] = ExperimentEntry(
                name,
                package,
                path.parent,
                conf,
                message,
                stated.requires,
                quick,
                quick if evening is None else float(evening),
                None if paper is None else float(paper),
                stated.alone,
                stated.needs_packages,
                "".join(chapter),
                stated.place,
            )
    return dict(sorted(found.items(), key=lambda item: _order(item[1])))


def _order(entry: ExperimentEntry) -> tuple[int, int, str]:
    known = entry.chapter in chapters.NAMES
    chapter = chapters.NAMES.index(entry.chapter) if known else len(chapters.NAMES)
    return chapter, entry.place, entry.name


def _declared(path: Path) -> tuple[str, Experiment]:
    """Message and declaration of an experiment, from the ``__init__.py`` of its folder alone.

    It is run by itself and not imported, so that folders of one name elsewhere do not matter.
    """
    namespace = runpy.run_path(str(path)) if path.is_file() else {}
    stated = namespace.get(DECLARATION)
    if not isinstance(stated, Experiment):
        raise ValueError(
            f"{path} must declare {DECLARATION} = Experiment(...), see docs/add-an-experiment.md"
        )
    return (namespace["__doc__"] or "").split("\n")[0], stated


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


def _installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
