"""Named tensors of a file, read one at a time, so that no second copy of a model is in memory."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from circuitax.models.config_fields import cut

# Eight bits and integers mean nothing without scales, which no family here keeps in its file.
_KINDS = ("F64", "F32", "F16", "BF16")


class Tensors(NamedTuple):
    """The names of a file's tensors, and their reader; several files may form one set.

    Attributes:
        shape: Of one tensor by name, without reading it.
        read: One tensor by name, of the type in the file. Raises a ValueError if that is no type of
            weights.
    """

    names: frozenset[str]
    shape: Callable[[str], tuple[int, ...]]
    read: Callable[[str], np.ndarray]

    def require_layers(self, n_layers: int) -> None:
        """Refuse more layers than tensors."""
        if n_layers > len(self.names):
            raise ValueError(
                f"n_layers={n_layers} must be at most {len(self.names)}, the number of weights"
            )

    def take(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """One tensor of a given shape."""
        if name not in self.names:
            raise ValueError(f"weight {name!r} is missing")
        found = self.shape(name)
        if found != shape:
            raise ValueError(f"weight {name!r} has shape {found}, must be {shape}")
        return self.read(name)


def tensors_of(state: Mapping[str, np.ndarray]) -> Tensors:
    """The arrays of a state dict that is in memory."""
    return Tensors(frozenset(state), lambda name: state[name].shape, state.__getitem__)


@contextmanager
def open_safetensors(files: Iterable[Path]) -> Iterator[Tensors]:
    """The tensors of one or more safetensors files."""
    where: dict[str, Path] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            # Flax arrays, since NumPy has no type for the bfloat16 of many files.
            with safe_open(file, framework="flax") as opened:
                names = opened.keys()
                heads = {name: opened.get_slice(name).get_shape() for name in names}
        except SafetensorError as error:
            raise ValueError(f"{file} must be a safetensors file: {error}") from None
        for name, shape in heads.items():
            if name in where:
                raise ValueError(f"weight {name!r} is in both {where[name].name} and {file.name}")
            where[name], shapes[name] = file, tuple(shape)

    def read(name: str) -> np.ndarray:
        # Opened again for each tensor: a map that stays open keeps all pages read so far.
        with safe_open(where[name], framework="flax") as opened:
            kind = opened.get_slice(name).get_dtype()
            if kind not in _KINDS:
                raise ValueError(
                    f"weight {name!r} is of type {kind}, must be one of {', '.join(_KINDS)}"
                )
            return np.asarray(opened.get_tensor(name))

    yield Tensors(frozenset(where), shapes.__getitem__, read)


def safetensors_files(source: Path) -> list[Path]:
    """The weight files of a folder: all shards of an index, or the only safetensors file."""
    if source.is_file():
        return [source]
    index = source / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError(f"{index} must be JSON with a 'weight_map' of file names") from None
        there = {file.name for file in source.iterdir() if file.is_file()}
        for name in names:
            if name not in there:
                raise ValueError(f"{index} names {cut(name)}, must name files beside it")
        return [source / name for name in names]
    found = sorted(file for file in source.glob("*.safetensors") if file.is_file())
    usual = [file for file in found if file.name == "model.safetensors"]
    if len(found) == 1 or usual:
        return usual or found
    others = [file.name for file in found]
    raise ValueError(
        f"{source} must hold one .safetensors file, or an index of shards, has {others}"
        + ("; pass the path of one of them" if others else "")
    )
