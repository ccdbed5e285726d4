"""Measurements of an ensemble: one function of one model, mapped over the axis of members."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from circuitax.kernel.keys import member_keys


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


def each_with_own(measure: Callable[..., PyTree], *own: PyTree) -> Callable[[PyTree], PyTree]:
    """As `each_member`, where each member has its own of every further argument.

    An interval over seeds holds the noise of an exam only where each seed sits an exam of its own;
    one that all share moves them together, and another root key then leaves the interval.

    Args:
        measure: Function of one model and of what is its own.
        *own: Arguments with the axis of members in front of every array, such as what
            `drawn_by_each` draws.

    Returns:
        Function of the members; its result has their axis in front of every array.
    """
    mapped = jax.jit(jax.vmap(measure))
    return lambda members: mapped(members, *own)


def drawn_by_each(
    draw: Callable[[Key[Array, ""]], PyTree], key: Key[Array, ""], n_members: int
) -> PyTree:
    """What each member draws by a key of its own: ``draw(fold_in(key, i))`` for member ``i``.

    Args:
        draw: Function of a key, such as a source of texts.
        key: Of this purpose.
        n_members: At least 1; member ``i`` draws the same whatever their number.

    Returns:
        The draws, with the axis of members in front of every array.

    Raises:
        ValueError: If ``n_members`` is less than 1.
    """
    return jax.jit(jax.vmap(draw))(member_keys(key, n_members))


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
