"""A twin: digests of a small run of an experiment's code, variable by variable.

The accepted run of an experiment was computed by older code, perhaps in hours. Its twin is a small
run by the same commit: whoever changes the code computes the twin again, and sees in a minute
whether the code gives other numbers, and in which variables.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file

from circuitax.data.files import checksum
from circuitax.records.record import Record

# Values of each variable that a twin keeps, evenly spaced, so that a difference has a size.
N_VALUES = 8
# Significant digits of these values: more than float32 has, fewer than a page of JSON needs.
_DIGITS = 10
# A difference of this share of a variable's largest value may be rounding, on another processor or
# with other libraries: the few steps of a twin amplify it.
ROUNDING = {"float32": 1e-3, "float64": 1e-9}

# Outcomes; a twin is not computed where a package or a text that it reads is not there.
SAME, ROUNDED, DIFFERENT = "same", "rounded", "different"
NOT_COMPUTED = "not computed"


class TwinComparison(NamedTuple):
    """Differences between two twins.

    Attributes:
        outcome: `SAME`: every variable of the kept twin has the same bits. `ROUNDED`: libraries or
            processor are others, and no number differs by more than rounding. `DIFFERENT`: all
            else.
        variables: The variables that differ; for `DIFFERENT` those that differ by more than
            rounding.
        largest: Largest difference among the values that twins keep, as a share of the largest
            value of the variable; infinite where only one twin has a number.
    """

    outcome: str
    variables: tuple[str, ...] = ()
    largest: float = 0.0


def digest(run: Path, varies: Iterable[str] = ()) -> dict[str, Any]:
    """Digest of every variable of a finished run: of its record, its notes and its arrays.

    Each is ``[sha256, values, type]``: of type, axes, shape and bytes, and up to `N_VALUES` of the
    numbers. Arrays beside the record, and what is not numbers, have no values and no type; nor has
    a variable of a twin that was made before types were kept.

    Args:
        run: Folder of a finished run.
        varies: Names to leave out, since they are not the same twice, such as seconds.
    """
    record = Record.load(run)
    found: dict[str, Any] = {}
    for name, variable in record.data.variables.items():
        array = np.asarray(variable.values)
        found[str(name)] = [_mark(array, variable.dims), _values(array), array.dtype.name]
    for name, note in record.notes.items():
        text = json.dumps(note, sort_keys=True, allow_nan=True)
        found[f"notes/{name}"] = [hashlib.sha256(text.encode()).hexdigest()[:16], []]
    for path in sorted((run / "arrays").glob("*")):
        if path.suffix == ".safetensors":
            for name, array in sorted(load_file(path).items()):
                found[f"arrays/{path.stem}/{name}"] = [_mark(array, ()), []]
        else:
            found[f"arrays/{path.name}"] = [checksum(path)[:16], []]
    left_out = set(varies)
    return {name: about for name, about in found.items() if name not in left_out}


def compare(
    here: Mapping[str, Any], there: Mapping[str, Any], *, same_machine: bool, dtype: str
) -> TwinComparison:
    """Differences between two digests of one twin.

    Args:
        here: Digest by the present code.
        there: Digest that the accepted run carries.
        same_machine: Whether libraries and kind of processor are the same, so that bits should be.
        dtype: Type of the numbers computed with, a key of `ROUNDING`.
    """
    # A variable that only newer code records moves none of the accepted numbers.
    changed = [name for name in sorted(there) if here.get(name, [])[:2] != there[name][:2]]
    if not changed:
        return TwinComparison(SAME)
    sizes = {name: _difference(here.get(name), there.get(name)) for name in changed}
    largest = max(sizes.values())
    # What is chosen by numbers, such as an index, may change with their last digits: it is no
    # difference of its own where some number was rounded.
    limits = {name: _rounding(here.get(name), dtype) for name in changed}
    beyond = [name for name, size in sizes.items() if size > limits[name]]
    rounded = any(size <= limits[n] and _has_fractions(there[n]) for n, size in sizes.items())
    if same_machine or beyond or not rounded:
        return TwinComparison(
            DIFFERENT, tuple(beyond if beyond and not same_machine else changed), largest
        )
    return TwinComparison(ROUNDED, tuple(changed), largest)


def _rounding(here: Any, dtype: str) -> float:
    """The limit of a variable: in a run of float64 some are computed in float32 on purpose."""
    kind = here[2] if here is not None and len(here) > 2 else dtype
    return max(ROUNDING[dtype], ROUNDING.get(kind, 0.0))


def _has_fractions(kept: Any) -> bool:
    return any(value is not None and not float(value).is_integer() for value in kept[1])


def _mark(array: np.ndarray, dims: Iterable[Any]) -> str:
    """Digest of an array; texts of any width count as texts."""
    if array.dtype.kind in "OUST":
        content = json.dumps(array.astype(str).tolist()).encode()
        kind = "text"
    else:
        content, kind = np.ascontiguousarray(array).tobytes(), array.dtype.str
    head = json.dumps([kind, [str(dim) for dim in dims], list(array.shape)])
    return hashlib.sha256(head.encode() + content).hexdigest()[:16]


def _values(array: np.ndarray) -> list[float | None]:
    """A sample of an array's numbers after the largest one's size; None for NaN and infinity."""
    if array.dtype.kind not in "fiu" or array.size == 0:
        return []
    flat = array.ravel().astype(np.float64)
    finite = np.abs(flat[np.isfinite(flat)])
    where = np.unique(np.linspace(0, flat.size - 1, N_VALUES).round().astype(int))
    kept = [finite.max() if finite.size else math.nan, *flat[where]]
    return [float(f"{x:.{_DIGITS}g}") if math.isfinite(x) else None for x in kept]


def _difference(here: Any, there: Any) -> float:
    """Largest difference of two variables over the largest value; inf for unequal shapes."""
    if here is None or there is None or len(here[1]) != len(there[1]):
        return math.inf
    if any((x is None) != (y is None) for x, y in zip(here[1], there[1], strict=True)):
        return math.inf
    pairs = [(x, y) for x, y in zip(here[1], there[1], strict=True) if x is not None]
    scale = max((abs(pairs[0][0]), abs(pairs[0][1]))) if pairs else 0.0
    return max((abs(x - y) for x, y in pairs), default=0.0) / scale if scale else 0.0
