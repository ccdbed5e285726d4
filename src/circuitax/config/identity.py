"""The identity of a run: one hash of everything that determines its numbers but source code."""

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


def outside_inputs(spec: Any, prefix: str = "") -> dict[str, str]:
    """Checksums of a run's inputs from outside this checkout, by dotted field.

    A spec that names texts, tokenizers, weights or other files defines ``outside_inputs()``, which
    returns the checksum of each by field. This function asks a spec and all specs in its fields.

    Args:
        spec: A frozen dataclass.
        prefix: Dotted path of ``spec``, with a dot at its end.
    """
    found = {}
    if hasattr(spec, "outside_inputs"):
        found = {f"{prefix}{field}": mark for field, mark in spec.outside_inputs().items()}
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        if dataclasses.is_dataclass(value):
            found |= outside_inputs(value, f"{prefix}{field.name}.")
    return found


def run_id(
    experiment: str,
    spec: Any,
    *,
    scale: str,
    seed: int,
    dtype: str,
    inputs: Mapping[str, str],
    outside: Mapping[str, str],
) -> str:
    """Twelve hexadecimal digits that hash all of the following.

    Args:
        experiment: Name of the experiment.
        spec: Its own fields.
        scale: Name of the scale.
        seed: Root of all randomness.
        dtype: Floating-point type.
        inputs: Identity of each upstream run, by experiment.
        outside: Checksums of what is read from outside, see `outside_inputs`.
    """
    identity = {
        "experiment": experiment,
        "spec": canonical(spec),
        "scale": scale,
        "seed": seed,
        "dtype": dtype,
        "inputs": dict(inputs),
    }
    if outside:
        identity["outside"] = dict(outside)
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
