"""Arrays on disk: one safetensors file with readable names and a checksum, without pickle."""

import hashlib
import json
import sys
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
_NEST, _TYPES = "nest", "types"
# Types that safetensors holds as they are; complex numbers and text are kept as their bytes.
_PLAIN = "biuf"


class Damaged(ValueError):
    """A file whose checksum does not match; the message is one line that names it."""


def flat_names(tree: Any) -> dict[str, np.ndarray]:
    """The leaves of a pytree by path, such as ``layers/0/W``; a single array is ``value``."""
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
    """The arrays of a file, by name, or in the structure of ``like``."""
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
    """Write arrays and texts about them to one file with a checksum, atomically."""
    # `ascontiguousarray` turns a single number into a vector; its shape is restored.
    whole = {name: np.ascontiguousarray(a).reshape(np.shape(a)) for name, a in named.items()}
    texts = dict(about or {})
    packed = json.dumps({**texts, _CHECKSUM: _checksum(whole, texts)}, sort_keys=True)
    write_bytes(path, save(whole, metadata={_ABOUT: packed}))


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and the texts of a file written by ``write_arrays``."""
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


def save_stage(path: Path, result: Any) -> None:
    """Write nested containers of arrays: dicts, lists, tuples, NamedTuples and None."""
    arrays: dict[str, np.ndarray] = {}
    nest = _described(result, "", arrays)
    types = {}
    for name, array in arrays.items():
        if array.dtype.kind not in _PLAIN:
            types[name] = [array.dtype.str, list(array.shape)]
            arrays[name] = np.frombuffer(array.tobytes(), np.uint8)
    write_arrays(path, arrays, {_NEST: json.dumps(nest), _TYPES: json.dumps(types)})


def load_stage(path: Path) -> Any:
    """The nested NumPy arrays written by ``save_stage``."""
    arrays, about = read_arrays(path)
    if not {_NEST, _TYPES} <= about.keys():
        raise Damaged(f"file {path.name!r} is damaged: it describes no stage")
    for name, (dtype, shape) in json.loads(about[_TYPES]).items():
        arrays[name] = np.frombuffer(arrays[name].tobytes(), dtype).reshape(shape)
    return _rebuilt(json.loads(about[_NEST]), arrays)


def _described(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    if value is None:
        return None
    below = f"{name}/" if name else ""
    if type(value) is dict:
        wrong = [key for key in value if type(key) not in (str, int)]
        if wrong:
            raise ValueError(f"key={wrong[0]!r} of a stage's dict must be text or an integer")
        return ["dict", [[key, _described(v, f"{below}{key}", arrays)] for key, v in value.items()]]
    if isinstance(value, tuple | list):
        items = [
            _described(item, f"{below}{field}", arrays)
            for field, item in zip(getattr(value, "_fields", range(len(value))), value, strict=True)
        ]
        if type(value) in (list, tuple):
            return [type(value).__name__, items]
        return [[type(value).__module__, _top_name(type(value))], items]
    array = np.asarray(value)
    if array.dtype.kind not in _PLAIN + "cU" or name in arrays:
        raise ValueError(
            f"a stage's result {name or 'value'!r} is {type(value).__name__} with type "
            f"{array.dtype}, it must be arrays of numbers or text in dicts, tuples and lists"
        )
    arrays[name or "value"] = array
    return name or "value"


def _top_name(kind: type) -> str:
    if not hasattr(kind, "_fields") or "." in kind.__qualname__:
        raise ValueError(
            f"{kind.__qualname__} in a stage's result must be a NamedTuple defined at the top of "
            "its module"
        )
    return kind.__qualname__


def _rebuilt(nest: Any, arrays: dict[str, np.ndarray]) -> Any:
    if nest is None:
        return None
    if isinstance(nest, str):
        return arrays[nest]
    kind, items = nest
    if kind == "dict":
        return {key: _rebuilt(value, arrays) for key, value in items}
    values = [_rebuilt(item, arrays) for item in items]
    if kind == "list":
        return values
    return tuple(values) if kind == "tuple" else _named_tuple(kind[0], kind[1], values)


def _named_tuple(module: str, name: str, values: list[Any]) -> Any:
    # Loaded modules and NamedTuples only: reading a file runs no code that the file chooses.
    kind = getattr(sys.modules.get(module), name, None)
    fields = getattr(kind, "_fields", None)
    if not (isinstance(kind, type) and issubclass(kind, tuple)) or fields is None:
        raise Damaged(f"its NamedTuple {module}.{name} is not known any more")
    if len(fields) != len(values):
        raise Damaged(f"its NamedTuple {module}.{name} has other fields now")
    return tuple.__new__(kind, values)
