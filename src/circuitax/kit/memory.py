"""Sizes that no memory holds are refused before anything of such a size is made."""

from typing import Any

from circuitax.kit.checks import field_of
from circuitax.memory import askable_bytes

# Of one float32; what is held in float64 or several times takes more.
BYTES = 4


def require_memory(spec: Any, n_numbers: int | float, *names: str) -> None:
    """Refuse fields that ask for more numbers than this machine holds.

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


def toy_numbers(networks: int, n_features: int, n_hidden: int, batch_size: int) -> int:
    """The least that training toy models takes: weights, their moments, and a batch of outputs."""
    weights = n_features * (n_hidden + 1)
    return networks * (3 * weights + batch_size * n_features)


def optimum_numbers(cells: int, starts: int, n_features: int, n_hidden: int) -> int:
    """The least that the exact optimum takes: starts and what they come to, in double precision."""
    return 4 * cells * starts * n_features * (n_hidden + 1)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
