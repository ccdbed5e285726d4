"""Unfinished work that cannot be read: named and moved out of the way, so that the run goes on."""

from collections.abc import Callable
from pathlib import Path

# In the folder of the work, with which it goes once the run is finished.
FOLDER = "unreadable"


def set_aside(path: Path, work: Path, wrong: str, say: Callable[[str], None]) -> None:
    """Move a file or folder out of some work, and say so in one line.

    Args:
        path: It lies below ``work``.
        work: Folder of the work of one run.
        wrong: What cannot be read, and why.
        say: Told this, and where it is kept.
    """
    into = work / FOLDER
    into.mkdir(exist_ok=True)
    name = "-".join(path.relative_to(work).parts)
    path.rename(into / f"{len(list(into.iterdir()))}-{name}")
    say(f"{wrong} (set aside in {FOLDER}/)")


def set_aside_misfits(
    work: Path, files: tuple[str, ...], folders: tuple[str, ...], say: Callable[[str], None]
) -> None:
    """Set aside what stands in the place of a file and is none, or of a folder.

    Args:
        work: Folder of the work of one run.
        files: Names in it that must be files, where they are there.
        folders: Names in it that must be folders, where they are there.
        say: Told about each.
    """
    for names, fits, kind in ((files, Path.is_file, "file"), (folders, Path.is_dir, "folder")):
        for path in map(work.joinpath, names):
            if path.exists() and not fits(path):
                set_aside(path, work, f"{path.name} of unfinished work is no {kind}", say)
