"""Arms and cells that are compared with equal data: what differs is the treatment alone."""

import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from circuitax.kernel.keys import derive, member_keys
from circuitax.kit.members import n_members
from circuitax.training.problem import Member


def crossed_members(key: Key[Array, ""], learning_rate: float, hyper: PyTree, seeds: int) -> Member:
    """Every seed in every cell: a seed starts alike and sees the same data in all cells.

    Members are ordered with cells fastest, ``member = seed * n_cells + cell``. The keys of a seed
    follow from ``key`` and its number alone, so that a cell is the same in every sweep. Train them
    with ``Plan(common=n_cells)``: one draw then serves all cells of a seed.

    Args:
        key: Of the experiment, or of the part of it that is trained.
        learning_rate: One rate for all.
        hyper: Numbers of the problem, every array with a leading axis of ``seeds * n_cells``.
        seeds: Independent replicates, at least 1.

    Raises:
        ValueError: If ``seeds`` is less than 1 or does not divide the members.

    Source: toy-models paper, phase diagrams: cells of one picture, each trained with every seed.
    """
    total = n_members(hyper)
    if seeds < 1 or total % seeds:
        raise ValueError(f"seeds={seeds} must divide the number of members, {total}")
    init_key, data_key = (
        jnp.repeat(member_keys(derive(key, purpose), seeds), total // seeds)
        for purpose in ("init", "data")
    )
    return Member(init_key, data_key, jnp.full(total, learning_rate), hyper)


def file_name_of(arm: str) -> str:
    """The name of an arm as part of a file name: ``"2 layers, primed"`` is ``2-layers-primed``."""
    return arm.replace(", ", "-").replace(" ", "-")
