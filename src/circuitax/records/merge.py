"""Many runs of a sweep as one labelled dataset, whose dimensions are the sweep's axes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

# Coordinates relatively closer than this are the same: 0.7 may have passed through float32.
SAME = 1e-6
# Two runs that cover the same cell must agree to this relative error.
EQUAL = 1e-5
# How many missing cells a message names; it counts the others.
NAMED = 12


class Part(NamedTuple):
    """One run of the sweep.

    Attributes:
        name: Identity of the run, for messages.
        point: Value of every swept field, by its dotted path; lists for axes inside the run.
        data: The run's arrays.
        ragged: Dimensions whose length follows from the swept fields, such as ``hidden`` in a
            sweep over the width: they may be shorter in one run than in another.
    """

    name: str
    point: dict[str, Any]
    data: xr.Dataset
    ragged: tuple[str, ...] = ()


class Merged(NamedTuple):
    """The dataset of a sweep.

    Attributes:
        data: All runs; cells that no run covers are not a number.
        missing: Each missing cell in words; empty when the sweep is whole.
        left_out: Variables that differ between runs but have none of the swept axes.
        partial: Variables that some runs do not have at all; their cells are not missing.
    """

    data: xr.Dataset
    missing: list[str]
    left_out: list[str]
    partial: list[str]


def merge(parts: Sequence[Part], planned: Sequence[Mapping[str, Any]] = ()) -> Merged:
    """Merge runs whose swept fields are jobs (one value per run) or axes inside runs (a list).

    A scalar field becomes a dimension named by the last part of its path. Where the run's arrays
    have another dimension of that name (``seed`` counts networks inside a run, and is the root of
    its randomness), the swept field's dimension is ``run_<name>``. Dimensions without coordinates
    count from 0.

    Args:
        parts: The runs, at least one.
        planned: Points of runs that should exist and do not; the axes include their values.

    Raises:
        ValueError: If ``parts`` is empty, two runs differ where they overlap, or a list was
            swept that is no dimension of the arrays.
    """
    if not parts:
        raise ValueError("parts is empty, there must be at least one run to merge")
    names = _apart(axis_names({path for part in parts for path in part.point}), parts)
    free = _free_of(parts, names)
    expanded = [_expanded(part, names, free) for part in parts]
    coords = _union(expanded, planned, names)
    aligned = [_on(coords, data) for data in expanded]
    variables: dict[str, xr.Variable] = {}
    left_out: list[str] = []
    partial: list[str] = []
    missing: dict[str, None] = {}  # a set that keeps its order
    for name in dict.fromkeys(str(n) for data in aligned for n in data.data_vars):
        having = [(p.name, d[name]) for p, d in zip(parts, aligned, strict=True) if name in d]
        if not set(having[0][1].dims) & set(names.values()) and not _all_equal(having):
            left_out.append(name)
            continue
        variables[name], covered = _filled(name, having, coords)
        if len(having) < len(parts):
            partial.append(name)
        for part, data in zip(parts, aligned, strict=True):
            _excuse(covered, variables[name].dims, name, data, part, set(names.values()))
        for text in _holes(covered, variables[name].dims, coords):
            missing.setdefault(text, None)
    used = {str(dim): coords[str(dim)] for v in variables.values() for dim in v.dims}
    return Merged(xr.Dataset(variables, used), list(missing), left_out, partial)


def axis_names(paths: set[str]) -> dict[str, str]:
    """The dimension of each swept field: the last part of its path where that is unique."""
    leaves = [path.rpartition(".")[2] for path in paths]
    return {
        path: leaf if leaves.count(leaf) == 1 else path
        for path in sorted(paths)
        for leaf in [path.rpartition(".")[2]]
    }


def _apart(names: Mapping[str, str], parts: Sequence[Part]) -> dict[str, str]:
    """The dimensions, renamed if a run has another one of that name inside."""
    return {
        path: f"run_{dim}" if any(_clashes(part, path, dim) for part in parts) else dim
        for path, dim in names.items()
    }


def _clashes(part: Part, path: str, dim: str) -> bool:
    value = part.point.get(path)
    if value is None or isinstance(value, (list, tuple)) or dim not in part.data.dims:
        return False
    return not _is_axis(part.data, dim, [value])


def missing_text(missing: Sequence[str]) -> str:
    """The missing cells in one line."""
    more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
    return "; ".join(missing[:NAMED]) + more


def _free_of(parts: Sequence[Part], names: Mapping[str, str]) -> dict[str, set[str]]:
    """For each swept dimension, its constant variables in a run that sweeps it inside."""
    free: dict[str, set[str]] = {dim: set() for dim in names.values()}
    for part in parts:
        for path, value in part.point.items():
            if isinstance(value, (list, tuple)) and len(value) > 1:
                inner = _axis_of(part.data, names[path], value)
                free[names[path]] |= {
                    str(n) for n, v in part.data.data_vars.items() if inner not in v.dims
                }
    return free


def _excuse(
    covered: np.ndarray,
    dims: Sequence[Any],
    name: str,
    data: xr.Dataset,
    part: Part,
    swept: set[str],
) -> None:
    """Mark cells absent by design as covered: a whole variable, or part of a ragged one."""
    absent = name not in data
    if not absent and not set(part.ragged) & set(map(str, dims)):
        return
    index = []
    for dim, size in zip(map(str, dims), covered.shape, strict=True):
        whole = dim in part.ragged or (absent and dim not in swept) or dim not in data.dims
        index.append(np.arange(size) if whole else data[dim].values)
    covered[np.ix_(*index)] = True


def _expanded(part: Part, names: Mapping[str, str], free: Mapping[str, set[str]]) -> xr.Dataset:
    """The run's arrays with every swept field as a dimension."""
    data = part.data
    for path, value in part.point.items():
        dim = names[path]
        if isinstance(value, (list, tuple)):
            if not _is_axis(data, dim, value):
                raise ValueError(
                    f"field {path}={list(value)} of run {part.name} must be the coordinate of "
                    f"one dimension of its arrays, which have {sorted(map(str, data.dims))}"
                )
            inner = _axis_of(data, dim, value)
            data = data.rename({inner: dim}) if inner != dim else data
        elif dim not in data.dims:
            data = data.drop_vars(dim, errors="ignore").assign_coords({dim: [value]})
        if data.sizes[dim] == 1:  # everything in this run belongs to its one value
            lacking = [
                name
                for name, v in data.data_vars.items()
                if dim not in v.dims and str(name) not in free[dim]
            ]
            data = data.assign({n: data[n].expand_dims({dim: data[dim].values}) for n in lacking})
    return data


def _is_axis(data: xr.Dataset, dim: str, values: Sequence[Any]) -> bool:
    return _axis_of(data, dim, values) != ""


def _axis_of(data: xr.Dataset, dim: str, values: Sequence[Any]) -> str:
    candidates = [dim] if dim in data.dims else [str(d) for d in data.dims if d in data.coords]
    fitting = [
        name
        for name in candidates
        if name in data.coords
        and data.sizes[name] == len(values)
        and _same(data[name].values, np.asarray(values)).all()
    ]
    return fitting[0] if len(fitting) == 1 else ""


def _union(
    datasets: Sequence[xr.Dataset],
    planned: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
) -> dict[str, np.ndarray]:
    pooled: dict[str, list[np.ndarray]] = {}
    for data in datasets:
        for dim in map(str, data.dims):
            values = data[dim].values if dim in data.coords else np.arange(data.sizes[dim])
            pooled.setdefault(dim, []).append(values)
    for point in planned:
        for path, value in point.items():
            if path in names and names[path] in pooled:
                pooled[names[path]].append(np.atleast_1d(np.asarray(value)))
    return {dim: _distinct(np.concatenate(values)) for dim, values in pooled.items()}


def _distinct(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iuf":
        return np.asarray(list(dict.fromkeys(values.tolist())))
    ordered = np.unique(values)
    if not ordered.size:
        return ordered
    groups = np.split(ordered, np.flatnonzero(~_same(ordered[1:], ordered[:-1])) + 1)
    # The shortest decimal comes first: 0.7 is kept for 0.699999988.
    return np.asarray([min(near.tolist(), key=lambda x: (len(repr(x)), x)) for near in groups])


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "iuf" and b.dtype.kind in "iuf":
        return np.asarray(np.isclose(a.astype(float), b.astype(float), rtol=SAME, atol=0.0))
    return np.asarray(a == b)


def _on(coords: Mapping[str, np.ndarray], data: xr.Dataset) -> xr.Dataset:
    """The dataset with each dimension labelled by its indices in the union."""
    labels = {}
    for dim in map(str, data.dims):
        values = data[dim].values if dim in data.coords else np.arange(data.sizes[dim])
        found = [int(np.argmax(_same(coords[dim], np.asarray(value)))) for value in values]
        labels[dim] = np.asarray(found, int)  # of no value too, which would be of floats
    bare = data.drop_vars(list(data.coords))
    return bare.assign_coords(labels)


def _all_equal(having: Sequence[tuple[str, xr.DataArray]]) -> bool:
    first = having[0][1]
    return all(first.equals(array) for _, array in having)


def _filled(
    name: str, having: Sequence[tuple[str, xr.DataArray]], coords: Mapping[str, np.ndarray]
) -> tuple[xr.Variable, np.ndarray]:
    dims = list(dict.fromkeys(str(dim) for _, array in having for dim in array.dims))
    shape = [len(coords[dim]) for dim in dims]
    dtype = np.result_type(*(array.dtype for _, array in having))
    values, covered = np.zeros(shape, dtype), np.zeros(shape, bool)
    for run, array in having:
        if set(array.dims) != set(dims):
            raise ValueError(f"variable {name!r} of run {run} has dims {array.dims}, others {dims}")
        array = array.transpose(*dims)
        where = np.ix_(*(array[dim].values for dim in dims))
        again = covered[where]
        if not _equal_or_nan(values[where][again], array.values[again]):
            raise ValueError(f"variable {name!r} of run {run} differs from another run's value")
        values[where] = array.values
        covered[where] = True
    if not covered.all():
        fill: Any = "" if dtype.kind in "OUT" else np.nan
        values = values.astype(np.result_type(dtype, float)) if dtype.kind in "biu" else values
        values[~covered] = fill
    return xr.Variable(dims, values, having[0][1].attrs), covered


def _equal_or_nan(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind in "fc":  # the same cell may come from a batch of another size
        return bool(np.allclose(a, b, rtol=EQUAL, atol=0.0, equal_nan=True))
    return bool(np.array_equal(a, b))


def _holes(
    covered: np.ndarray, dims: Sequence[Any], coords: Mapping[str, np.ndarray]
) -> Iterator[str]:
    hole, kept = ~covered, list(dims)
    if not hole.any():  # arrays without entries have none
        return
    for dim in list(dims):
        axis = kept.index(dim)
        if (hole == hole.all(axis, keepdims=True)).all():  # missing at every value: not the cause
            hole = np.asarray(hole.all(axis))
            kept.remove(dim)
    for index in np.argwhere(hole):
        cell = (f"{d}={coords[d][i]}" for d, i in zip(kept, index, strict=True))
        yield ", ".join(cell) or "everything"
