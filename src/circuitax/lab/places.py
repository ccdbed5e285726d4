"""Folders that must be writable, and one line about a disk that does not take what is written."""

import errno
import os
import re
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
# Bytes that must find room before anything is computed: more than a command leaves at its start.
_ROOM = 1_000_000


def require_results() -> Path:
    """The results folder, made if it is missing, once a file of a megabyte could be written there.

    Raises:
        ValueError: If it cannot be made or written, naming it and the variable that moves it.
    """
    folder = results_folder()
    if "${" in str(folder):
        raise ValueError(
            f"results folder {str(folder)!r} must have a name without '${{', which stands for a "
            f"value in configurations: name another with {VARIABLE}=FOLDER"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            if file.write(bytes(_ROOM)) < _ROOM:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return folder
    except OSError as error:
        raise ValueError(
            f"results folder {str(folder)!r} cannot be written ({error.strerror}): make room, or "
            f"name another with {VARIABLE}=FOLDER"
        ) from error


def own_folder(option: str, given: str) -> Path:
    """A folder that a person named for what a command leaves, made if it is missing.

    Args:
        option: What they named it with.
        given: Its path.

    Raises:
        ValueError: If it is no folder, or holds ``${``, so that it would be another each time.
    """
    if "${" in given:
        raise ValueError(f"{option}={given} must be the name of a folder, without ${{...}}")
    folder = Path(given)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in _OF_THE_PLACE:
            raise
        raise ValueError(f"{option}={given} must be a folder ({error.strerror})") from error
    return folder


def about_the_place(error: OSError) -> str:
    """One line about an error of the disk, with the way to move results; empty for other errors."""
    # Copies of folders fail with a list of errors as texts.
    found = re.search(r"\[Errno (\d+)\]", str(error))
    number = error.errno or (int(found[1]) if found else 0)
    if number not in _OF_THE_PLACE:
        return ""
    where = os.fsdecode(error.filename) if error.filename else str(results_folder())
    if number == errno.ENAMETOOLONG:
        return (
            f"the name {where[:60] + '...'!r} of {len(where)} characters is too long for the disk"
        )
    return (
        f"{where!r} cannot be written ({os.strerror(number)}): make room, or name other folders "
        f"with {VARIABLE}=FOLDER (results) and CIRCUITAX_CACHE=FOLDER (texts); what was saved is "
        "kept, and the same command resumes"
    )


def in_one_line(error: Exception) -> str:
    """What is wrong: about the disk if it is that, else the kind of the error and what it says."""
    place = about_the_place(error) if isinstance(error, OSError) else ""
    return place or f"{type(error).__name__}: {error}"
