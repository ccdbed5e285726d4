"""Memory limits: sizes beyond the machine are refused before any allocation."""

import math
from typing import Any

from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import field_of
from circuitax.memory import askable_bytes
from circuitax.models.parameters import transformer_parameters

# Of one float32; what is held in float64 or several times takes more.
BYTES = 4


def require_memory(spec: Any, n_numbers: int | float, *names: str) -> None:
    """Refuse fields that need more numbers than this machine's memory holds.

    The count is a lower bound: what passes may still be too large, as what a step needs beside its
    arrays is not counted.

    Args:
        spec: A specification.
        n_numbers: How many numbers are held at once, at least.
        *names: Fields that decide it, the one that the message begins with first.

    Raises:
        ValueError: If they take more than all memory, or 64 GiB where there is less.
    """
    limit = askable_bytes()
    if n_numbers * BYTES <= limit:
        return
    fields = [f"{name}={_short(field_of(spec, name))}" for name in names]
    others = f" (with {', '.join(fields[1:])})" if len(fields) > 1 else ""
    raise ValueError(
        f"{fields[0]} must be smaller{others}: the arrays would take {n_numbers * BYTES:.1e} bytes "
        f"or more, at most {limit:.1e} can be asked for here"
    )


def require_arrays(spec: Any, *shapes: str) -> None:
    """Refuse fields that ask for an array beyond memory; `require_memory` of each shape.

    Args:
        spec: A specification.
        *shapes: Axes of one array that is held at once, ``"seeds batch n_features"``: numbers, and
            fields, which count by their value; a list of whole numbers by the largest, other lists
            by their length, a transformer by its weights, and None as 1.

    Raises:
        ValueError: If an array is too large; the message begins with its longest axis.
    """
    for shape in shapes:
        axes = shape.split()
        names = dict.fromkeys(axis for axis in axes if not axis.isdecimal())
        sizes = {name: _size(field_of(spec, name)) for name in names}
        numbers = math.prod(sizes[axis] if axis in sizes else int(axis) for axis in axes)
        require_memory(spec, numbers, *sorted(sizes, key=lambda name: -sizes[name]))


def weights_of(model: TransformerSpec) -> int:
    """Number of weights of a transformer."""
    return sum(math.prod(parameter.shape) for parameter in transformer_parameters(model).values())


def _size(field: Any) -> int:
    if isinstance(field, TransformerSpec):
        return weights_of(field)
    if isinstance(field, tuple | list):
        whole = all(isinstance(item, int) for item in field)
        return max(field, default=0) if whole else len(field)
    return 1 if field is None else int(field)


def _short(value: Any) -> str:
    text = f"{weights_of(value)} weights" if isinstance(value, TransformerSpec) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
