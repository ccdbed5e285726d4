"""Measurements of an ensemble: one function of one model, mapped over the axis of members."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree


def each_member(measure: Callable[..., PyTree], *shared: Any) -> Callable[[PyTree], PyTree]:
    """A compiled function of the members of an ensemble, all at once.

    ``each_member(measure, texts)(models)`` is ``jit(vmap(measure, (0, None)))(models, texts)``.

    Args:
        measure: Function of one model and of what all share.
        *shared: Arguments that are the same for all members, such as the texts that all
            are measured on. They enter as arguments of the compiled code, not as constants.

    Returns:
        Function of the members; its result has their axis in front of every array.
    """
    mapped = jax.jit(jax.vmap(measure, (0, *[None] * len(shared))))
    return lambda members: mapped(members, *shared)


def one_by_one(
    measure: Callable[..., Mapping[str, Any]], members: PyTree, *shared: Any
) -> dict[str, np.ndarray]:
    """Named arrays of every member, stacked; each is measured alone, where all would not fit.

    Args:
        measure: Function of one model and of what all share; compile it yourself.
        members: Models with an axis of members in front of every array.
        *shared: Arguments that are the same for all members.
    """
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
    """How many members there are: the length of the first axis of every array.

    Raises:
        ValueError: If arrays disagree, or one has no axis.
    """
    lengths = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(members)}
    if len(lengths) != 1 or () in lengths:
        raise ValueError(f"members must have one leading axis on every array, has {lengths}")
    ((length,),) = lengths
    return int(length)
