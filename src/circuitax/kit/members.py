"""Measurements of an ensemble over its axis of members, and arrays of unequal length on one.

Arms and cells have equal data, so that treatments alone are compared.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree
from numpy.typing import ArrayLike, DTypeLike

from circuitax.kernel.keys import derive, in_a_row, member_keys
from circuitax.kit.measured_training import Trained, chunk_size, measured_training
from circuitax.lab.lab import Lab
from circuitax.training import ensemble
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import Member, Problem


def each_member(measure: Callable[..., PyTree], *shared: Any) -> Callable[[PyTree], PyTree]:
    """A compiled function of the members of an ensemble, all at once.

    ``each_member(measure, texts)(models)`` is ``jit(vmap(measure, (0, None)))(models, texts)``.
    """
    mapped = jax.jit(jax.vmap(measure, (0, *[None] * len(shared))))
    return lambda members: mapped(members, *shared)


def each_with_own(measure: Callable[..., PyTree], *own: PyTree) -> Callable[[PyTree], PyTree]:
    """`each_member` with a separate value of every further argument for each member.

    An interval over seeds holds the noise of an exam only where each seed sits an exam of its own;
    one that all share moves them together, and another root key then leaves the interval.
    """
    mapped = jax.jit(jax.vmap(measure))
    return lambda members: mapped(members, *own)


def drawn_by_each(
    draw: Callable[[Key[Array, ""]], PyTree], key: Key[Array, ""], n_members: int
) -> PyTree:
    """Draws of each member from its own key: ``draw(fold_in(key, i))`` for member ``i``."""
    return jax.jit(jax.vmap(draw))(member_keys(key, n_members))


def one_by_one(
    measure: Callable[..., Mapping[str, Any]], members: PyTree, *shared: Any
) -> dict[str, np.ndarray]:
    """Named arrays of every member, stacked; members are measured singly to save memory."""
    found = [measure(member, *shared) for member in split_members(members)]
    return {name: np.stack([np.asarray(one[name]) for one in found]) for name in found[0]}


def member_of(members: PyTree, index: int) -> PyTree:
    """One member of an ensemble: every array without its first axis."""
    return jax.tree.map(lambda leaf: leaf[index], members)


def split_members(members: PyTree) -> Iterator[PyTree]:
    """The members of an ensemble, one after the other."""
    for index in range(n_members(members)):
        yield member_of(members, index)


def n_members(members: PyTree) -> int:
    """Number of members: the length of the first axis of every array."""
    lengths = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(members)}
    if len(lengths) != 1 or () in lengths:
        raise ValueError(f"members must have one leading axis on every array, has {lengths}")
    ((length,),) = lengths
    return int(length)


def padded(array: ArrayLike, length: int, axis: int = -1, fill: Any = None) -> np.ndarray:
    """The array padded with ``fill`` to ``length`` entries on one axis."""
    values = np.asarray(array)
    short = length - values.shape[axis]
    if short < 0:
        raise ValueError(f"length={length} must be at least {values.shape[axis]}, the present one")
    widths = [(0, 0)] * values.ndim
    widths[axis] = (0, short)
    return np.pad(values, widths, constant_values=_fill(values, fill))


def stack_ragged(
    arrays: Iterable[ArrayLike],
    axis: int | None = None,
    *,
    fill: Any = None,
    dtype: DTypeLike | None = None,
) -> np.ndarray:
    """Arrays stacked on a new first axis, the shorter ones padded at the end."""
    found = [np.asarray(array, dtype) for array in arrays]
    if not found:
        raise ValueError("arrays is empty, it must hold at least one")
    if axis is None:
        return np.stack(found)
    longest = max(array.shape[axis] for array in found)
    if all(array.shape[axis] == longest for array in found):
        return np.stack(found)
    return np.stack([padded(array, longest, axis, fill) for array in found])


def stack_named(
    cells: Iterable[Mapping[str, ArrayLike]],
    name: str,
    axis: int | None = None,
    *,
    fill: Any = None,
    dtype: DTypeLike | None = None,
) -> np.ndarray:
    """`stack_ragged` of one named array of every arm, width or depth of an experiment."""
    return stack_ragged([cell[name] for cell in cells], axis, fill=fill, dtype=dtype)


def _fill(values: np.ndarray, fill: Any) -> Any:
    if fill is not None:
        return fill
    if values.dtype.kind in "fc":
        return np.nan
    if values.dtype.kind == "b":
        return False
    raise ValueError(f"fill=None must be a value: {values.dtype} has no NaN")


def crossed_members(key: Key[Array, ""], learning_rate: float, hyper: PyTree, seeds: int) -> Member:
    """Members of every seed in every cell: cells of a seed have equal initialisation and data.

    Members are ordered with cells fastest, ``member = seed * n_cells + cell``. The keys of a seed
    follow from ``key`` and its number alone, so that a cell is the same in every sweep. Train them
    with ``Plan(common=n_cells)``: one draw then serves all cells of a seed.

    Source: toy-models paper, phase diagrams: cells of one picture, each trained with every seed.
    """
    total = n_members(hyper)
    if seeds < 1 or total % seeds:
        raise ValueError(f"seeds={seeds} must divide the number of members, {total}")
    init_key, data_key = (
        in_a_row(member_keys(derive(key, purpose), seeds), total // seeds)
        for purpose in ("init", "data")
    )
    # On the host, as the numbers of `in_every_seed`.
    rates = jax.device_put(np.full(total, learning_rate, jnp.result_type(float)))
    return Member(init_key, data_key, rates, hyper)


def in_every_seed(cells: PyTree, seeds: int) -> PyTree:
    """The numbers of all cells, once for each seed, in the order of `crossed_members`."""
    number = jnp.result_type(float)

    def repeated(leaf: Array | np.ndarray) -> Array:
        # On the host: JAX would compile a program for each shape, and sweeps go over shapes.
        repeats = (seeds, *[1] * (leaf.ndim - 1))
        return jax.device_put(np.tile(np.asarray(leaf, number), repeats))

    return jax.tree.map(repeated, cells)


def crossed_training(
    lab: Lab,
    name: str,
    key: Key[Array, ""],
    problem: Problem,
    optim: OptimSpec,
    cells: PyTree,
    *,
    seeds: int,
    chunk: int | None = None,
    mapping: ensemble.Mapping = ensemble.Mapping.vmap,
    measure: Callable[[PyTree], dict[str, Array]] | None = None,
) -> Trained:
    """Train every seed in every cell at once, with common random numbers across a seed's cells.

    Members are ordered as `crossed_members` says: reshape them to ``(seeds, n_cells)``. All are
    measured between chunks, of at most 100 steps unless it is said, and at the start.
    """
    chunk = chunk_size(optim.steps, most=100) if chunk is None else chunk
    hyper = in_every_seed(cells, seeds)
    members = crossed_members(key, optim.learning_rate, hyper, seeds)
    plan = ensemble.Plan(problem, optim, chunk, mapping, common=n_members(cells), mesh=lab.mesh)
    state = ensemble.init(plan, members)
    advance = ensemble.advance(plan, members)
    return measured_training(
        lab, name, state, advance, steps=optim.steps, every=chunk, measure=measure
    )


def file_name_of(arm: str) -> str:
    """The name of an arm as part of a file name: ``"2 layers, primed"`` is ``2-layers-primed``."""
    return arm.replace(", ", "-").replace(" ", "-")
