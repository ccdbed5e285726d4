"""Atomic writes of files and folders, their checksums, and labelled arrays in one format."""

import errno
import filecmp
import glob
import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from circuitax.data.files import checksum

# NetCDF attributes hold neither None nor dicts nor booleans, so all are saved as one string.
_ATTRIBUTE = "circuitax"
# Attributes of a variable that every reader of the format looks for, and finds beside it.
_COMMON = ("long_name", "units")
# HDF5 1.10 of 2016 and later reads it. Its index of an array in one piece takes a few bytes, where
# that of the default format takes 2 kB and more: 0.8 MB less for 48 accepted runs.
_HDF5 = ("v110", "v110")
# Bytes of an array from which on it is compressed.
_PACKED_FROM = 1024
_ONE_PIECE = 2**28


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically: under a temporary name, then renamed."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: under a temporary name, then renamed.

    Raises:
        OSError: Naming the file, of which nothing is left then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _hidden(path, "tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)  # on a full disk it would take the last room
        error.filename = str(path)  # which a failed write does not say
        raise


def write_json(path: Path, value: Any) -> None:
    """Write plain values as JSON, atomically; numbers that are not finite are refused.

    Raises:
        ValueError: If a number is not finite (JSON has no name for it).
    """
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``target`` when the block ends without an error.

    A folder at ``target`` is replaced, by `publish`; after an error it is unchanged.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _hidden(target, "tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        publish(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def publish(folder: Path, target: Path) -> None:
    """Move ``folder`` to ``target`` and replace the old one; the result survives a power failure.

    Everything is on the disk before ``target`` changes. A process that is killed between the two
    renames leaves a folder under a hidden name, which the next one removes. A folder on
    another disk is copied and compared before.

    Raises:
        OSError: If the disk of ``target`` does not take it; ``target`` is as it was then.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    new, old = _hidden(target, "tmp"), _hidden(target, "old")
    whole = folder if folder.parent == target.parent else _moved(folder, new)
    for path in (*whole.rglob("*"), whole):
        _flush(path)
    if target.exists():
        # Two renames: a folder that is not empty cannot be replaced in one.
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
    try:
        whole.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    _flush(target.parent)
    for left in target.parent.glob(f".{glob.escape(target.name)}.*"):
        if left.suffix in (".old", ".tmp"):
            shutil.rmtree(left, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)  # the original of a copy


def _hidden(target: Path, kind: str) -> Path:
    """What this process writes or replaces beside a file or folder."""
    return target.with_name(f".{target.name}.{os.getpid()}.{kind}")


def _moved(folder: Path, new: Path) -> Path:
    """The folder, or a copy of it, at ``new``, which has no readers."""
    shutil.rmtree(new, ignore_errors=True)
    try:
        return folder.rename(new)
    except OSError as error:
        if error.errno != errno.EXDEV:  # it is on this disk, as it is seen from here
            raise
    try:
        shutil.copytree(folder, new)
        names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
        _, other, unread = filecmp.cmpfiles(folder, new, names, shallow=False)
        if other or unread:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(new / [*other, *unread][0]))
    except OSError:
        shutil.rmtree(new, ignore_errors=True)  # on a full disk it would take the last room
        raise
    return new


def _flush(path: Path) -> None:
    """Ask the operating system to write a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_dataset(path: Path, data: "xr.Dataset", attributes: Mapping[str, Any]) -> None:
    """Write labelled arrays and plain attributes to one NetCDF file, atomically and losslessly.

    Arrays read from another file lose its packing, which may round.

    Args:
        path: File to write.
        data: Numbers, booleans, complex numbers or text; its own attributes are kept too.
        attributes: JSON values of any depth.

    Raises:
        ValueError: If a variable has a type that the format does not hold.
    """
    for name, variable in data.variables.items():
        _check_type(str(name), variable)
    packed = {
        "attributes": dict(attributes),
        "data": dict(data.attrs),
        "variables": {str(name): dict(v.attrs) for name, v in data.variables.items() if v.attrs},
    }
    bare = data.copy(deep=False)
    _strip(bare)
    for name, attributes in packed["variables"].items():
        bare.variables[name].attrs = {key: attributes[key] for key in _COMMON if key in attributes}
    bare.attrs[_ATTRIBUTE] = json.dumps(packed, allow_nan=False)
    packing = {
        name: _packing(variable)
        for name, variable in bare.variables.items()
        if variable.dtype.kind in "iufb" and variable.nbytes >= _PACKED_FROM
    }
    import h5netcdf  # not at the start of every command

    # In memory, and then as plain bytes: HDF5 ends the process where the disk is full.
    whole = io.BytesIO()
    with h5netcdf.File(whole, "w", libver=_HDF5) as file:
        bare.dump_to_store(xr.backends.H5NetCDFStore(file), encoding=packing)
    write_bytes(path, whole.getvalue())


def _packing(variable: "xr.Variable") -> dict[str, Any]:
    how = {"zlib": True, "complevel": 9, "shuffle": True}
    # The pieces that HDF5 would choose pack worse; it holds none of 4 GB.
    return how | {"chunksizes": variable.shape} if variable.nbytes <= _ONE_PIECE else how


def read_dataset(path: Path) -> "tuple[xr.Dataset, dict[str, Any]]":
    """Read the labelled arrays and the attributes written by ``write_dataset`` into memory.

    Raises:
        ValueError: If the file does not exist, is damaged, or was not written by
            ``write_dataset``.
    """
    if not path.is_file():
        raise ValueError(f"path={path.name!r} in {path.parent.name!r} must be a record's data file")
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            data = opened.load()
    except OSError as error:
        raise ValueError(f"path={path.name!r} is damaged: {error}") from error
    if _ATTRIBUTE not in data.attrs:
        raise ValueError(f"path={path.name!r} lacks the attribute {_ATTRIBUTE!r} of a record")
    packed = json.loads(data.attrs[_ATTRIBUTE])
    _strip(data)
    data.attrs.update(packed["data"])
    for name, attributes in packed["variables"].items():
        data[name].attrs.update(attributes)
    return data, packed["attributes"]


def _strip(data: "xr.Dataset") -> None:
    """Remove all attributes and the encoding of another file, in place.

    ``drop_attrs`` and ``drop_encoding`` make new datasets, the first one for each variable: a
    millisecond each, three times a job.
    """
    data.attrs = {}
    for variable in data.variables.values():
        variable.attrs, variable.encoding = {}, {}


def _check_type(name: str, variable: "xr.Variable") -> None:
    kind = variable.dtype.kind
    if kind in "biufcUM":
        return
    if kind in "OT" and all(isinstance(item, str) for item in np.ravel(variable.values)):
        return
    raise ValueError(
        f"variable {name!r} has type {variable.dtype}, it must hold numbers, booleans or text "
        "(cast bfloat16 to float32, keep seeds instead of keys)"
    )


MANIFEST = "manifest.json"


def checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The checksum of each named file of a folder, an empty text where there is no such file."""
    paths = {name: folder / name for name in names}
    return {name: checksum(path) if path.is_file() else "" for name, path in paths.items()}


def write_manifest(folder: Path, left_out: Iterable[str] = ()) -> None:
    """Write the checksum of every file of a folder to ``manifest.json``.

    Args:
        folder: Folder to write about; its hidden files do not count.
        left_out: Files and folders below it that do not count, because they are made again from
            the others.
    """
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MANIFEST
    )
    skipped = set(left_out)
    kept = [
        name
        for name in names
        if not any(part.startswith(".") for part in name.split("/"))
        and name not in skipped
        and name.split("/")[0] not in skipped
    ]
    marks = checksums(folder, kept)
    write_json(folder / MANIFEST, {"sha256": marks, "of_these": _of_all(marks)})


def damage(folder: Path) -> str:
    """Description of the first damaged file of a folder; empty if all checksums match."""
    if not (folder / MANIFEST).is_file():
        return f"{MANIFEST} is missing"
    try:
        expected = _read(folder)
    except ValueError:
        return f"{MANIFEST} is damaged"
    for name, mark in expected.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if checksum(folder / name) != mark:
            return f"{name} is damaged"
    return ""


def contents(folder: Path, below: Iterable[str]) -> str:
    """One combined checksum of some files of a folder, from its manifest.

    Args:
        folder: A folder with a manifest.
        below: Names of files, and of folders all of whose files count.
    """
    wanted = set(below)
    marks = _read(folder)
    return _of_all({n: marks[n] for n in marks if n in wanted or n.split("/")[0] in wanted})


def _of_all(marks: Mapping[str, str]) -> str:
    lines = [f"{name} {mark}\n" for name, mark in sorted(marks.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _read(folder: Path) -> dict[str, str]:
    kept = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    marks = kept.get("sha256") if isinstance(kept, dict) else None
    if not isinstance(marks, dict) or kept != {"sha256": marks, "of_these": _of_all(marks)}:
        raise ValueError(f"{MANIFEST} of {folder.name!r} is damaged")
    return marks
