"""Transformer specs as plain values, as records keep them, and back."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from enum import Enum
from typing import Any

from circuitax.kernel.spec import TransformerSpec, read_options

# Options that are younger than accepted records are written where they are set only, so that the
# notes of a model without them stay as they were.
_YOUNGER = {"post_ln": False}


def to_plain(spec: TransformerSpec) -> dict[str, Any]:
    """Every field as a JSON value; enums by their value."""
    plain = {k: v.value if isinstance(v, Enum) else v for k, v in asdict(spec).items()}
    return {k: v for k, v in plain.items() if k not in _YOUNGER or v != _YOUNGER[k]}


def from_plain(values: Mapping[str, Any], **changes: Any) -> TransformerSpec:
    """The spec of `to_plain`, with some fields changed."""
    known = {field.name for field in fields(TransformerSpec)}
    given = {**values, **changes}
    for name in given:
        if name not in known:
            raise ValueError(f"field {name!r} must be one of TransformerSpec: {sorted(known)}")
    return TransformerSpec(**read_options(given))
