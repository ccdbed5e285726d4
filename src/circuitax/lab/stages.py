"""The result of a stage on disk: a nest of arrays as one safetensors file, without pickle."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from circuitax.lab.arrays import Damaged, read_arrays, write_arrays

_NEST, _TYPES = "nest", "types"
# Types that safetensors holds as they are; complex numbers and text are kept as their bytes.
_PLAIN = "biuf"


def save_stage(path: Path, result: Any) -> None:
    """Write nested containers of arrays: dicts, lists, tuples, NamedTuples and None.

    Args:
        path: File to write, all of it or nothing.
        result: Its arrays hold numbers, booleans, complex numbers or text. A NamedTuple must be
            defined at the top of its module, where ``load_stage`` finds it again.

    Raises:
        ValueError: If ``result`` holds anything else.
    """
    arrays: dict[str, np.ndarray] = {}
    nest = _described(result, "", arrays)
    types = {}
    for name, array in arrays.items():
        if array.dtype.kind not in _PLAIN:
            types[name] = [array.dtype.str, list(array.shape)]
            arrays[name] = np.frombuffer(array.tobytes(), np.uint8)
    write_arrays(path, arrays, {_NEST: json.dumps(nest), _TYPES: json.dumps(types)})


def load_stage(path: Path) -> Any:
    """The nested NumPy arrays written by ``save_stage``.

    Raises:
        Damaged: If the file is not as it was written, or one of its NamedTuples is not known any
            more: nothing is imported or called to read it.
    """
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
