"""The catalogue of experiments, by what each declares, without importing JAX."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType

from circuitax.names import nearest
from circuitax.records.table import CHAPTER_NAMES, Table, read_table

# Folders of further experiments, beside the built-in ones: each holds one folder an experiment, and
# conf/experiment/<name>.yaml.
VARIABLE = "CIRCUITAX_EXPERIMENTS"
EXPERIMENT, READINGS, TABLE = "experiment", "readings", "claims.toml"
# What an experiment takes that finds none of what it reads: the start, and figures without data.
IDLE_SECONDS = 10.0


@dataclass(frozen=True)
class ExperimentEntry:
    """One experiment: a folder with ``experiment.py``, ``readings.py`` and ``claims.toml``.

    Attributes:
        name: The folder's name, which is the experiment's name.
        package: Name to import the folder by.
        folder: The folder.
        conf: Folder that holds ``experiment/<name>.yaml``.
        chapter: The folder around the experiment's; empty where it stands in none.
        table: What ``claims.toml`` says of it.
    """

    name: str
    package: str
    folder: Path
    conf: Path
    chapter: str
    table: Table

    @property
    def title(self) -> str:
        """Its name for people."""
        return self.table.title

    @property
    def requires(self) -> tuple[str, ...]:
        """Experiments whose results it reads."""
        return self.table.requires

    def seconds(self, scale: str) -> float | None:
        """Expected seconds at a scale on two cores; None if no time is stated.

        Those of evening scale are those of quick scale where none are stated. Where a package that
        it needs is not installed, these are `IDLE_SECONDS` at most.
        """
        stated = self.table.seconds.get(scale)
        if stated is None and scale == "evening":
            stated = self.table.seconds.get("quick")
        if stated is None:
            return None
        there = all(map(_installed, self.table.needs_packages))
        return float(stated) if there else min(float(stated), IDLE_SECONDS)

    @property
    def path(self) -> Path:
        """The file that defines ``Spec`` and ``run``."""
        return self.file(EXPERIMENT)

    def file(self, part: str) -> Path:
        """One of the Python files of the folder, which may be missing."""
        return self.folder / f"{part}.py"

    def load(self, part: str = EXPERIMENT) -> ModuleType:
        """One of the folder's modules, imported."""
        place = str(self.folder.parents[self.package.count(".")])
        if not self.package.startswith("experiments.") and place not in sys.path:
            sys.path.append(place)
        return importlib.import_module(f"{self.package}.{part}")


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
    """Every experiment by name: folders with a ``claims.toml``.

    They stand in the folders of chapters or beside them, and come in the order of
    `CHAPTERS` of `circuitax.records.table`.

    Raises:
        ValueError: If two folders have one name, or a table cannot be read.
    """
    root = checkout()
    places = [(root / "experiments", "experiments.", root / "conf")]
    for text in os.environ.get(VARIABLE, "").split(os.pathsep):
        if text:
            place = Path(text).resolve()
            places.append((place, "", place / "conf"))
    found: dict[str, ExperimentEntry] = {}
    for place, prefix, conf in places:
        for path in (*place.glob(f"*/{TABLE}"), *place.glob(f"*/*/{TABLE}")):
            *chapter, name = path.parent.relative_to(place).parts
            if name in found:
                raise ValueError(f"experiment {name!r} is in two folders, it must be in one")
            package = prefix + ".".join((*chapter, name))
            table = read_table(path)
            found[name] = ExperimentEntry(name, package, path.parent, conf, "".join(chapter), table)
    return dict(sorted(found.items(), key=lambda item: _order(item[1])))


def _order(entry: ExperimentEntry) -> tuple[int, int, str]:
    known = entry.chapter in CHAPTER_NAMES
    chapter = CHAPTER_NAMES.index(entry.chapter) if known else len(CHAPTER_NAMES)
    return chapter, entry.table.place, entry.name


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
