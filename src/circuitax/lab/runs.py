"""Folders of runs: where they are, one door that checks what is read, one process that computes."""

import errno
import json
import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NewType

from filelock import FileLock, Timeout

from circuitax.config.catalogue import checkout
from circuitax.data.files import checksum
from circuitax.names import nearest
from circuitax.records.rows import SettledRow, row_from_json
from circuitax.records.store import damage, write_json

VARIABLE = "CIRCUITAX_RESULTS"  # another place for results, such as a scratch disk
PROVENANCE = "provenance.json"
SPEC = "spec.json"
OVERRIDES = "overrides.yaml"
CLAIMS = "claims.json"
SETTLED = "settled.json"
FIGURES = "figures"
FIGURES_FAILED = "figures_failed.txt"
TWIN = "twin.json"  # of an accepted run: digests of a small run by the same code
# What is made again from the data of a run; its manifest leaves it out.
DERIVED = (CLAIMS, SETTLED, FIGURES, FIGURES_FAILED)
ACCEPTED = "accepted"
# What may be typed for a run that still has the experiment's own defaults.
NEUTRAL = {"experiment", "scale", "seed", "dtype"}
SWEEPS = "sweeps"
# Arrays beside the record. Git keeps small weights, named PUBLISHED..., and the tokenizer.
ARRAYS = "arrays"
PUBLISHED = "published-"
TOKENIZER = "tokenizer.json"
_NOT_RUNS = {ACCEPTED, "collected", SWEEPS}
# What a person mends by giving room or another folder; other errors are of the program.
_DISK_ERRORS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
    errno.EIO,
}

# A run all of whose files have the checksums of its manifest; `whole` alone makes them.
WholeRun = NewType("WholeRun", Path)


class DamagedRun(ValueError):
    """A run one of whose files has another checksum; ``wrong`` says which."""

    def __init__(self, run: Path, wrong: str) -> None:
        accepted = run.name == ACCEPTED
        mended = "git brings it back" if accepted else "the command that made it computes it again"
        super().__init__(f"RUN={shown(run)} must be whole, but {wrong}: {mended}")
        self.wrong = wrong


class Busy(RuntimeError):
    """Another living process computes the same run."""


def results_folder() -> Path:
    """``results/`` of the checkout, or the folder of ``CIRCUITAX_RESULTS``."""
    given = os.environ.get(VARIABLE)
    return Path(os.path.realpath(given)) if given else checkout() / "results"


def work_folder() -> Path:
    """Folder of everything unfinished, ignored by git."""
    return results_folder() / ".work"


def run_folder(experiment: str, run: str) -> Path:
    """Folder of the finished run of this identity, which may not exist yet."""
    return results_folder() / experiment / run


def accepted_run(experiment: str) -> Path:
    """The accepted run of an experiment, in the results folder or else in the checkout."""
    places = (results_folder(), checkout() / "results")
    for folder in (place / experiment / ACCEPTED for place in places):
        if (folder / PROVENANCE).is_file():
            return folder
    raise ValueError(
        f"experiment={experiment} must have an accepted run: those of a clone of the repository "
        f"are in {places[-1]}"
    )


def finished_runs(experiment: str) -> list[Path]:
    """Folders of the finished runs of an experiment, the oldest first; accepted ones left out."""
    found = [
        path.parent
        for path in (results_folder() / experiment).glob(f"*/{PROVENANCE}")
        if path.parent.name not in _NOT_RUNS and not path.parent.name.startswith(".")
    ]
    return sorted(found, key=lambda run: (run / PROVENANCE).stat().st_mtime)


def named_runs(item: str) -> list[Path]:
    """The finished runs of a name, the oldest first, the accepted one last.

    The name is a run's folder, ``NAME/RUN`` below the results, a RUN alone, or an experiment's NAME
    for all its runs.
    """
    for folder in (Path(os.path.realpath(item)), results_folder() / item):
        if (folder / PROVENANCE).is_file():
            return [folder]
    found = finished_runs(item)
    if (results_folder() / item / ACCEPTED / PROVENANCE).is_file():
        found.append(results_folder() / item / ACCEPTED)
    everywhere = sorted(path.parent for path in results_folder().glob(f"*/*/{PROVENANCE}"))
    found = found or [run for run in everywhere if run.name == item and item != ACCEPTED]
    if not found:
        near = nearest(item, sorted({run.parent.name for run in everywhere}))
        raise ValueError(
            f"RUN={item} must be the folder of a finished run, or an experiment with one{near}"
        )
    return found


def whole(run: Path) -> WholeRun:
    """The run of a folder, after all its checksums have been verified."""
    if not run.is_dir():
        raise ValueError(f"run={run.name!r} must be the folder of a finished run")
    if wrong := damage(run):
        raise DamagedRun(run, wrong)
    return WholeRun(run)


def newest_run(item: str) -> WholeRun:
    """The newest run of a name, as `newest_folder`, after its checksums have been verified."""
    return whole(newest_folder(item))


def newest_folder(item: str) -> Path:
    """The newest run of a name, as `named_runs`: the accepted one only where no other is."""
    runs = named_runs(item)
    computed = [run for run in runs if run.name != ACCEPTED]
    return (computed or runs)[-1]


def provenance(run: Path) -> dict[str, Any]:
    """The provenance of a finished run."""
    return dict(json.loads((run / PROVENANCE).read_text(encoding="utf-8")))


def typed(run: Path) -> list[str]:
    """What was typed for a run, as ``field=value``."""
    lines = (run / OVERRIDES).read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("- ") for line in lines]


def typed_fields(run: Path) -> list[str]:
    """Fields that were typed for a run."""
    return [text.partition("=")[0] for text in typed(run)]


def spec_fields(run: Path) -> dict[str, Any]:
    """The spec of a finished run as plain values, by dotted field."""
    return flat(json.loads((run / SPEC).read_text(encoding="utf-8")))


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of fields in which two specs differ, or that one of them has not."""
    return [key for key in {**one, **other} if one.get(key, ...) != other.get(key, ...)]


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted name."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def settled_rows(run: Path) -> list[SettledRow]:
    """The rows of a finished run as they were settled last."""
    return [row_from_json(item) for item in _settled(run, CLAIMS)]


def _settled(run: Path, name: str) -> Any:
    """A file written by `settle`: derived from the data, so the manifest leaves it out."""
    try:
        kept = json.loads((run / SETTLED).read_text(encoding="utf-8"))
        if checksum(run / name) == kept["sha256"][name]:
            return json.loads((run / name).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DamagedRun(run, f"{name} is damaged") from error
    raise DamagedRun(run, f"{name} is damaged")


def figures(run: Path) -> Iterator[Path]:
    """The PNG figures of a run, by name."""
    yield from sorted((run / FIGURES).glob("*.png"))


def note_sweep(experiment: str, name: str, jobs: list[dict[str, Any]]) -> None:
    """Note identity and overrides of each job of a sweep before it starts, for ``collect``.

    Names of sweeps sort by time.
    """
    write_json(results_folder() / experiment / SWEEPS / f"{name}.json", {"jobs": jobs})


def sweeps_of(experiment: str) -> dict[str, list[dict[str, Any]]]:
    """The jobs of each sweep of an experiment; the latest sweep last."""
    found = {}
    for path in sorted((results_folder() / experiment / SWEEPS).glob("*.json")):
        try:
            found[path.stem] = list(json.loads(path.read_text(encoding="utf-8"))["jobs"])
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"sweep {path.stem} is damaged: delete {shown(path)}") from error
    return found


@contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file; the system releases it when its process ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise Busy(
            f"{what} is being computed by another process; wait for it, or stop it and run the "
            "same command to resume"
        ) from None
    try:
        yield
    finally:
        lock.release()


def shown(path: Path) -> str:
    """A path for display: relative to the working folder when below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def place_of(error: BaseException) -> str:
    """``file.py:line`` of the innermost call of an error that is in no other library."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "site-packages" not in frame.filename]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}"


def in_one_line(error: BaseException) -> str:
    """An error in one line, that of a disk with the way to move results."""
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        where = os.fsdecode(error.filename) if error.filename else str(results_folder())
        return (
            f"{where[:200]!r} cannot be written ({os.strerror(error.errno)}): make room, or name "
            f"another folder with {VARIABLE}=FOLDER; the same command resumes"
        )
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
