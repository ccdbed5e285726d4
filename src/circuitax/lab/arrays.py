"""Weights kept beside a record: a pytree as one safetensors file with readable names."""

import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file, save_file


def flat_names(tree: Any) -> dict[str, np.ndarray]:
    """The leaves of a pytree by path, such as ``layers/0/W``; a single array is ``value``.

    Raises:
        ValueError: If a leaf is a typed key, or not an array of numbers.
    """
    named = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = jax.tree_util.keystr(path, simple=True, separator="/") or "value"
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            raise ValueError(f"{name} is a random key; save its seed, or jax.random.key_data(key)")
        array = np.asarray(leaf)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} has type {array.dtype}, it must be numbers or booleans")
        named[name] = np.ascontiguousarray(array).reshape(array.shape)
    return named


def save_tree(path: Path, tree: Any) -> None:
    """Write the leaves of a pytree, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    save_file(flat_names(tree), temporary)
    temporary.replace(path)


def load_tree(path: Path, like: Any = None) -> Any:
    """The arrays of a file, by name, or in the structure of ``like``.

    Args:
        path: File that ``save_tree`` wrote.
        like: A pytree with the structure wanted (its leaves are not read), or None.

    Raises:
        ValueError: If the file does not exist, or its names are not those of ``like``.
    """
    if not path.is_file():
        raise ValueError(f"arrays {path.stem!r} were not saved by {path.parent.parent.name!r}")
    named = load_file(path)
    if like is None:
        return named
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [jax.tree_util.keystr(key, simple=True, separator="/") or "value" for key, _ in leaves]
    if sorted(names) != sorted(named):
        raise ValueError(f"like={sorted(names)} must have the names saved, {sorted(named)}")
    return jax.tree_util.tree_unflatten(structure, [named[name] for name in names])
