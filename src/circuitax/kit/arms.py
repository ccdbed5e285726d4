"""Arms and cells with equal data, compared by treatment alone."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from circuitax.kernel.keys import derive, in_a_row, member_keys
from circuitax.kit.measured_training import Trained, measured_training
from circuitax.kit.members import n_members
from circuitax.lab.lab import Lab
from circuitax.training import ensemble
from circuitax.training.ensemble import Mapping, Plan
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import Member, Problem


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
    chunk: int,
    mapping: Mapping = Mapping.vmap,
    measure: Callable[[PyTree], dict[str, Array]] | None = None,
) -> Trained:
    """Train every seed in every cell at once, with common random numbers across a seed's cells.

    Members are ordered as `crossed_members` says: reshape them to ``(seeds, n_cells)``. All are
    measured between chunks, and at the start.
    """
    hyper = in_every_seed(cells, seeds)
    members = crossed_members(key, optim.learning_rate, hyper, seeds)
    plan = Plan(problem, optim, chunk, mapping, common=n_members(cells), mesh=lab.mesh)
    state = ensemble.init(plan, members)
    advance = ensemble.advance(plan, members)
    return measured_training(
        lab, name, state, advance, steps=optim.steps, every=chunk, measure=measure
    )


def file_name_of(arm: str) -> str:
    """The name of an arm as part of a file name: ``"2 layers, primed"`` is ``2-layers-primed``."""
    return arm.replace(", ", "-").replace(" ", "-")
