"""The identity of a run: one hash of everything that determines its numbers but the source."""

import dataclasses
import enum
import hashlib
import json
from collections.abc import Mapping
from typing import Any


def canonical(value: Any) -> Any:
    """A spec as plain JSON values, the same for equal specs.

    Raises:
        ValueError: If a field holds something other than specs, enums, tuples and plain values.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: canonical(getattr(value, name)) for name in names}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (tuple, list)):
        return [canonical(item) for item in value]
    if isinstance(value, dict):
        return {str(key): canonical(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"value={value!r} of type {type(value).__name__} must be plain or a spec")


def run_id(
    experiment: str, spec: Any, *, scale: str, seed: int, dtype: str, inputs: Mapping[str, str]
) -> str:
    """Twelve hexadecimal digits: equal for equal spec, scale, seed, dtype and upstream runs."""
    identity = {
        "experiment": experiment,
        "spec": canonical(spec),
        "scale": scale,
        "seed": seed,
        "dtype": dtype,
        "inputs": dict(inputs),
    }
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
