"""Arrays on disk: one safetensors file with readable names and a checksum."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from circuitax.records.store import write_bytes

# The only key of the file's metadata: safetensors writes several in an order that varies.
_ABOUT = "circuitax"
_CHECKSUM = "sha256"


class Damaged(ValueError):
    """A file whose checksum does not match; the message is one line that names it."""


def flat_names(tree: Any) -> dict[str, np.ndarray]:
    """The leaves of a pytree by path, such as ``layers/0/W``; a single array is ``value``.

    Raises:
        ValueError: If a leaf is a typed key, or not an array of real numbers or booleans.
    """
    named = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = _name(path)
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            raise ValueError(f"{name} is a random key; save its seed, or jax.random.key_data(key)")
        array = np.asarray(leaf)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} has type {array.dtype}, it must be numbers or booleans")
        named[name] = array
    return named


def save_tree(path: Path, tree: Any) -> None:
    """Write the leaves of a pytree atomically."""
    write_arrays(path, flat_names(tree))


def load_tree(path: Path, like: Any = None, *, leading: int = 0) -> Any:
    """The arrays of a file, by name, or in the structure of ``like``.

    Args:
        path: File that ``save_tree`` wrote.
        like: A pytree of arrays, or of their ``jax.ShapeDtypeStruct``, with the structure, shapes
            and kinds of number wanted (precision may differ), or None.
        leading: Axes that stand in front of every shape of ``like``, such as one of members.

    Raises:
        ValueError: If the file does not exist, or its names, shapes or kinds of number are not
            those of ``like``.
        Damaged: If the file is not as it was written.
    """
    if not path.is_file():
        raise ValueError(f"arrays {path.stem!r} were not saved by {path.parent.parent.name!r}")
    named, _ = read_arrays(path)
    if like is None:
        return named
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [_name(key) for key, _ in leaves]
    if sorted(names) != sorted(named):
        raise ValueError(f"like={sorted(names)} must have the names saved, {sorted(named)}")
    for name, (_, leaf) in zip(names, leaves, strict=True):
        _check_like(name, named[name], leaf, leading)
    fronts = {named[name].shape[:leading] for name in names}
    if len(fronts) > 1:
        raise ValueError(f"leading={leading} axes must agree, they are {sorted(fronts)}")
    return jax.tree_util.tree_unflatten(structure, [named[name] for name in names])


def _check_like(name: str, array: np.ndarray, leaf: Any, leading: int) -> None:
    shape, kind = np.shape(leaf), jnp.result_type(leaf).kind
    if array.ndim < leading or array.shape[leading:] != shape:
        front = "(" + "*, " * leading
        wanted = f"{front}{', '.join(map(str, shape))})" if leading else str(shape)
        raise ValueError(f"{name} has shape {array.shape}, must be {wanted}")
    if array.dtype.kind.replace("u", "i") != kind.replace("u", "i"):
        raise ValueError(f"{name} has type {array.dtype}, must be as {jnp.result_type(leaf)}")


def write_arrays(
    path: Path, named: Mapping[str, np.ndarray], about: Mapping[str, str] | None = None
) -> None:
    """Write arrays and texts about them to one file with a checksum, atomically.

    Args:
        path: File to write; its folder is made.
        named: Real numbers and booleans by name.
        about: Texts by name, kept in the file's metadata.
    """
    # `ascontiguousarray` turns a single number into a vector; its shape is restored.
    whole = {name: np.ascontiguousarray(a).reshape(np.shape(a)) for name, a in named.items()}
    texts = dict(about or {})
    packed = json.dumps({**texts, _CHECKSUM: _checksum(whole, texts)}, sort_keys=True)
    write_bytes(path, save(whole, metadata={_ABOUT: packed}))


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and the texts of a file written by ``write_arrays``.

    Raises:
        Damaged: If the file is cut short or changed, or was written by another program.
    """
    try:
        with safe_open(path, "numpy") as file:
            texts = dict(json.loads((file.metadata() or {})[_ABOUT]))
            named = {name: np.asarray(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise Damaged(f"file {path.name!r} is damaged: {error}") from error
    if texts.pop(_CHECKSUM, "") != _checksum(named, texts):
        raise Damaged(f"file {path.name!r} is damaged: its checksum is another")
    return named, texts


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/") or "value"


def _checksum(named: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(texts), sort_keys=True).encode())
    for name, array in sorted(named.items()):
        digest.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
