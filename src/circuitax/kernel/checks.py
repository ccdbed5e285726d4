"""Checks of arguments: one line names the argument, its value and the requirement."""

import dataclasses
import sys
from enum import Enum
from operator import index as as_integer
from typing import Any, SupportsIndex, TypeVar

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


def check_index(name: str, index: SupportsIndex, size: int) -> None:
    """Refuse a static index outside ``[0, size)``; arrays, which may be traced, pass."""
    if hasattr(index, "ndim") and not isinstance(index, np.generic):
        return
    if not 0 <= whole(name, index) < size:
        raise ValueError(f"{name}={index} must be from 0 to {size - 1}")


def chosen_of(name: str, chosen: Any, size: int) -> list[int]:
    """Static indices from 0, each in range, such as positions of a text or layers; None for all."""
    if chosen is None:
        return list(range(size))
    if isinstance(chosen, str) or not np.ndim(chosen):
        raise ValueError(f"{name}={shortened(chosen)} must be a list of {name} from 0")
    for at in chosen:
        check_index(name, at, size)
    return [int(at) for at in chosen]


def whole(name: str, value: SupportsIndex, least: int | None = None) -> int:
    """A static integer, given as one of Python, NumPy or JAX."""
    try:
        given = None if isinstance(value, bool | np.bool_) else as_integer(value)
    except TypeError:
        given = None
    if given is None:
        raise ValueError(f"{name}={shortened(value)} must be an integer")
    if least is not None and given < least:
        raise ValueError(f"{name}={given} must be at least {least}")
    return given


def counted_index(name: str, index: SupportsIndex, size: int) -> int:
    """A static index from 0, where the one given may count from the end."""
    given = whole(name, index)
    if not -size <= given < size:
        raise ValueError(f"{name}={given} must be from {-size} to {size - 1}")
    return given % size
