"""Named tensors of a file, read one at a time, so that no second copy of a model is ever held."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open


class Tensors(NamedTuple):
    """The names of a file's tensors, and how one is read; several files may be one set."""

    names: frozenset[str]
    read: Callable[[str], np.ndarray]
    """One tensor by name, of the type in the file."""

    def require_layers(self, n_layers: int) -> None:
        """Refuse more layers than there are tensors.

        Raises:
            ValueError: If there are.
        """
        if n_layers > len(self.names):
            raise ValueError(
                f"n_layers={n_layers} must be at most {len(self.names)}, the number of weights"
            )

    def take(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """One tensor of a given shape.

        Raises:
            ValueError: If it is missing or has another shape.
        """
        if name not in self.names:
            raise ValueError(f"weight {name!r} is missing")
        array = self.read(name)
        if array.shape != shape:
            raise ValueError(f"weight {name!r} has shape {array.shape}, must be {shape}")
        return array


@contextmanager
def open_safetensors(files: Iterable[Path]) -> Iterator[Tensors]:
    """The tensors of one or more safetensors files.

    Raises:
        ValueError: If a file is damaged, or two hold the same name.
    """
    where: dict[str, Path] = {}
    for file in files:
        try:
            # Flax arrays, since NumPy has no type for the bfloat16 of many files.
            with safe_open(file, framework="flax") as opened:
                names = set(opened.keys())
        except SafetensorError as error:
            raise ValueError(f"{file} must be a safetensors file: {error}") from None
        for name in names:
            if name in where:
                raise ValueError(f"weight {name!r} is in both {where[name].name} and {file.name}")
            where[name] = file

    def read(name: str) -> np.ndarray:
        # Opened again for each tensor: a map that stays open keeps all pages read so far.
        with safe_open(where[name], framework="flax") as opened:
            return np.asarray(opened.get_tensor(name))

    yield Tensors(frozenset(where), read)


def safetensors_files(source: Path) -> list[Path]:
    """The weight files of a folder: all shards of an index, or the only safetensors file.

    Args:
        source: A folder, or one weight file.

    Raises:
        ValueError: If there is none, or several that no index joins, or a shard is missing.
    """
    if source.is_file():
        return [source]
    index = source / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = set(json.loads(index.read_bytes())["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError(f"{index} must be JSON with a 'weight_map' of file names") from None
        shards = [source / name for name in sorted(names)]
        for shard in shards:
            if not shard.is_file():
                raise ValueError(f"{shard} is missing, {index.name} names it")
        return shards
    found = sorted(source.glob("*.safetensors"))
    usual = [file for file in found if file.name == "model.safetensors"]
    if len(found) == 1 or usual:
        return usual or found
    others = [file.name for file in found]
    raise ValueError(
        f"{source} must hold one .safetensors file, or an index of shards, has {others}"
        + ("; pass the path of one of them" if others else "")
    )
