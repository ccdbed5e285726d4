"""Argument checks: one line names the argument, its value and the requirement."""

import dataclasses
import sys
from enum import Enum
from typing import Any, TypeVar

import numpy as np

Kind = TypeVar("Kind", bound=Enum)


def check_range(name: str, value: Any, interval: str) -> None:
    """Refuse a number, or an array with an entry, outside an interval; NaN is always outside."""
    # Records are read without JAX; as long as it is not imported, nothing can be traced.
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.core.Tracer):
        return
    low, high = (float(end) for end in interval[1:-1].split(","))
    try:
        values = np.asarray(value)
        above = values >= low if interval[0] == "[" else values > low
        below = values <= high if interval[-1] == "]" else values < high
        real = not np.iscomplexobj(values)
    except (TypeError, ValueError):
        real = False
    if not real:
        raise ValueError(f"{name}={shortened(value)} must be a real number, or an array of them")
    outside = ~(above & below)
    if not outside.any():
        return
    index = np.unravel_index(outside.argmax(), outside.shape)
    place = f"[{', '.join(map(str, index))}]" if values.ndim else ""
    if high < np.inf:
        requirement = f"in {interval}"
    else:
        bound = "at least" if interval[0] == "[" else "above"
        parts = ["finite"] * (not np.isfinite(values[index]))
        parts += [f"{bound} {low:g}"] * (low > -np.inf)
        requirement = " and ".join(parts)
    raise ValueError(f"{name}{place}={values[index]!s} must be {requirement}")


def shortened(value: Any) -> str:
    """A value as text for a message: one line of sixty characters, at most."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def check_float_type(name: str, dtype: Any) -> None:
    """Require a floating-point type, such as ``jnp.float32``."""
    from jax import numpy as jnp

    try:
        floating = jnp.issubdtype(jnp.dtype(dtype), jnp.floating)
    except TypeError:
        floating = False
    if dtype is None or not floating:
        raise ValueError(
            f"{name}={shortened(dtype)} must be a type of floating-point numbers, such as "
            "jnp.float32"
        )


def choice(name: str, kind: type[Kind], value: Any) -> Kind:
    """A member of an enum, given itself or by its value, such as ``"adam"``."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, str) or value not in (member.value for member in kind):
        allowed = ", ".join(str(member.value) for member in kind)
        raise ValueError(f"{name}={shortened(value)} must be one of {allowed}")
    return kind(value)


def choose_fields(spec: Any) -> None:
    """Let a frozen dataclass take names in the fields whose type is an enum; for its post-init."""
    for field in dataclasses.fields(spec):
        if isinstance(field.type, type) and issubclass(field.type, Enum):
            chosen = choice(field.name, field.type, getattr(spec, field.name))
            object.__setattr__(spec, field.name, chosen)
