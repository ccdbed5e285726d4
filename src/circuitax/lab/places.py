"""Folders that must be writable, and one line about a disk that does not take what is written."""

import errno
import os
import tempfile
from pathlib import Path

from circuitax.lab.runs import VARIABLE, results_folder

# What a person mends by giving room or another folder; all else is an error of the program.
_OF_THE_PLACE = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENAMETOOLONG,
    errno.EIO,
}


def require_results() -> Path:
    """The results folder, made if it is missing, once a file could be written there.

    Raises:
        ValueError: If it cannot be made or written, naming it and the variable that moves it.
    """
    folder = results_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise ValueError(
            f"results folder {str(folder)!r} cannot be written ({error.strerror}): name another "
            f"with {VARIABLE}=FOLDER"
        ) from error


def about_the_place(error: OSError) -> str:
    """One line about an error of the disk, with the way to move results; empty for other errors."""
    if error.errno not in _OF_THE_PLACE:
        return ""
    where = os.fsdecode(error.filename) if error.filename else str(results_folder())
    if error.errno == errno.ENAMETOOLONG:
        return (
            f"the name {where[:60] + '...'!r} of {len(where)} characters is too long for the disk"
        )
    return (
        f"{where!r} cannot be written ({error.strerror}): make room, or name other folders with "
        f"{VARIABLE}=FOLDER (results) and CIRCUITAX_CACHE=FOLDER (texts); what was saved is kept, "
        "and the same command resumes"
    )
