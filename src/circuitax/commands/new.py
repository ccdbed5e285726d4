"""Begin an experiment: ``python -m experiments.new NAME`` writes one that runs at once."""

import keyword
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

from circuitax.commands.cli import Command, Option
from circuitax.config.catalogue import VARIABLE, checkout, discover
from circuitax.lab.runs import shown
from circuitax.records.store import write_text
from circuitax.records.table import CHAPTER_NAMES, CLAIMS, GALLERY

COMMAND = Command(
    "new",
    """\
Writes an experiment that runs at once, to be changed into yours: the folder NAME with
experiment.py, readings.py and claims.toml, its configuration, and a test. They go into
this checkout (experiments/, conf/experiment/, tests/experiments/), or all three below a folder.
""",
    ("NAME",),
    (
        Option(
            "chapter",
            "CHAPTER",
            "chapter in which the experiment stands",
            allowed=CHAPTER_NAMES[:-1],
        ),
        Option(
            "folder",
            "FOLDER",
            f"folder below which all go; {VARIABLE}=FOLDER makes every command find them there",
        ),
    ),
)


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Write the files; exit status 2, and nothing written, when the name is taken or invalid."""
    name = options["NAME"]
    folder = Path(options["folder"]).expanduser().resolve() if options["folder"] else None
    try:
        written = new_experiment(name, folder, options["chapter"])
    except OSError as error:
        where = f"folder={options['folder']}" if folder else "the checkout"
        hint = "" if folder else ": name another place with folder=FOLDER"
        raise ValueError(f"{where} cannot be written ({error.strerror}){hint}") from error
    for path in written:
        print(shown(path))
    given = f"{VARIABLE}={shown(folder)} " if folder is not None else ""
    print(f"now: {given}python -m experiments.run experiment={name} scale=tiny")
    print(f"and: python -m pytest {next(shown(p) for p in written if p.stem == f'test_{name}')}")
    return 0


def new_experiment(name: str, folder: Path | None = None, chapter: str = "") -> list[Path]:
    """Write the files of a new experiment.

    Args:
        name: Lower-case letters, digits and underscores; becomes the name of a Python package.
        folder: Where further experiments are kept; None for this checkout.
        chapter: Name of the chapter that it belongs to; empty for none.

    Returns:
        The files, all of them new.

    Raises:
        ValueError: If the name is none, or something is there already.
    """
    _check_name(name)
    root = checkout()
    package = ".".join(filter(None, ("" if folder else "experiments", chapter, name)))
    experiments = (root / "experiments" if folder is None else folder) / chapter
    tests = root / "tests" / "experiments" / chapter if folder is None else folder / "tests"
    conf = (root if folder is None else folder) / "conf" / "experiment"
    texts = {
        **{experiments / name / part: _template(part) for part in _PARTS},
        conf / f"{name}.yaml": _template("experiment.yaml"),
        tests / f"test_{name}.py": _template("test.py"),
    }
    taken = [path for path in texts if path.exists()]
    if name in discover() or taken:
        where = f": {shown(taken[0])} is there already" if taken else ""
        raise ValueError(f"NAME={name} must be new{where}")
    dashed = name.replace("_", "-")
    if folder is not None and not (folder / "conftest.py").exists():
        texts = {folder / "conftest.py": _template("conftest.py"), **texts}
    for path, text in texts.items():
        filled = text.format(name=name, dashed=dashed, package=package)
        write_text(path, filled)
    return list(texts)


_PARTS = ("experiment.py", "readings.py", "claims.toml")


def _template(name: str) -> str:
    return files("circuitax.commands").joinpath(f"template/{name}.txt").read_text(encoding="utf-8")


def _check_name(name: str) -> None:
    fits = name.isidentifier() and name.isascii() and name == name.lower()
    if not fits or keyword.iskeyword(name) or name.startswith("_"):
        raise ValueError(
            f"NAME={name} must be lower-case letters, digits and underscores, a letter first"
        )
    # A folder of this name would hide the module, or be hidden by it.
    commands = {path.stem for path in (checkout() / "experiments").glob("*.py")}
    if name in commands | set(sys.stdlib_module_names) | {
        "benchmarks",
        "circuitax",
        "conf",
        *CHAPTER_NAMES,
    }:
        raise ValueError(f"NAME={name} must be another: a module has this name already")
    if name in {CLAIMS, GALLERY}:
        raise ValueError(f"NAME={name} must be another: results/{name}/ holds pages")
