"""Ensembles: many members, each with its own keys, rates and densities, in one compilation."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Key, PyTree

from circuitax.kernel.checks import check_range, choose_fields
from circuitax.kernel.compiled import Options, options_for
from circuitax.kernel.keys import derive, in_a_row, member_keys
from circuitax.training import step as solo
from circuitax.training.loop import Metrics, scan_steps
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import Member, Problem, TrainState
from circuitax.training.sharding import check_mesh, device_mesh, every_device, over_members, place


class Mapping(Enum):
    """Mapping of members to the machine; all choices give equal numbers up to rounding."""

    auto = "auto"
    """``loop`` on a CPU, ``vmap`` elsewhere."""
    loop = "loop"
    """One after the other: a member's batch stays in the cache while it is used."""
    vmap = "vmap"
    """All at once: fills a wide device."""


@dataclass(frozen=True)
class Plan:
    """The static arguments of a compiled ensemble.

    Attributes:
        problem: Model, data and loss of one member.
        optim: Optimizer; its learning rate is not used, since members have their own.
        chunk: Steps between two returns to Python, at least 1.
        mapping: How members are run.
        common: How many consecutive members see the same batches; 1 gives each its own. Sharing is
            much faster, and differences between members are paired, but for an interval they count
            as one sample of the data.
        mesh: Devices to spread over (`sharding.device_mesh`): members along its axis ``member``,
            and along ``data`` each batch of problems that split theirs (`sharding.split_samples`).
            ``auto`` takes all there are (`sharding.every_device`), but none without a member of
            its own; None is one device.
    """

    problem: Problem
    optim: OptimSpec
    chunk: int = 100
    mapping: Mapping = Mapping.auto
    common: int = 1
    mesh: Mesh | str | None = "auto"

    def __post_init__(self) -> None:
        choose_fields(self)
        for field in ("chunk", "common"):
            check_range(field, getattr(self, field), "[1, inf)")
        check_mesh(self.mesh)


def new_members(
    key: Key[Array, ""],
    learning_rate: Array | float,
    hyper: PyTree,
    *,
    common: int = 1,
    impl: str | None = None,
) -> Member:
    """The members of an ensemble from one key."""
    leaves = jax.tree.leaves(hyper)
    if not leaves:
        raise ValueError(
            f"hyper={hyper!r} must have an axis of members, which says how many there are: "
            "jnp.arange(n) for n members of a problem without numbers"
        )
    lengths = {jnp.shape(leaf)[:1] for leaf in leaves}
    if len(lengths) != 1 or () in lengths:
        raise ValueError(f"hyper must have leaves with one leading axis of members, has {lengths}")
    ((n_members,),) = lengths
    _check_common(common, n_members)
    groups = member_keys(derive(key, "data"), n_members // common)
    data_keys = in_a_row(groups if impl is None else _of_impl(groups, impl), common)
    rates = jnp.broadcast_to(jnp.asarray(learning_rate, float), (n_members,))
    return Member(member_keys(derive(key, "init"), n_members), data_keys, rates, hyper)


def init(plan: Plan, members: Member) -> TrainState:
    """The state of every member before its first step."""
    return _initialiser(options_for(steps=1))(plan.problem, plan.optim, members)


def advance(plan: Plan, members: Member) -> Callable[[TrainState], tuple[TrainState, Metrics]]:
    """One chunk of the whole ensemble, in the form that `Lab.loop` takes."""
    n_members = members.init_key.shape[0]
    _check_common(plan.common, n_members)
    # Compared on the host: JAX would compile a program for each of these steps and shapes.
    keys = np.asarray(jax.random.key_data(members.data_key))
    groups = keys.reshape(-1, plan.common, keys.shape[-1])
    if (groups != groups[:, :1]).any():
        raise ValueError(f"common={plan.common} consecutive members must share one data key")
    mesh = _mesh(plan, n_members)
    plan = replace(plan, mesh=mesh)
    if mesh is not None:
        members = place(members, mesh, n_members)

    def one_chunk(state: TrainState) -> tuple[TrainState, Metrics]:
        state = state if mesh is None else place(state, mesh, n_members)
        return _stepper(options_for(plan.optim.steps))(plan, state, members)

    return one_chunk


def _mesh(plan: Plan, n_members: int) -> Mesh | None:
    if not isinstance(plan.mesh, str):
        return plan.mesh
    found = every_device()
    if found is None:
        return None
    # Another device would train a copy of the last member.
    places = n_members if plan.common == n_members else n_members // plan.common
    n_devices = min(found.devices.size, places)
    return device_mesh(n_devices) if n_devices > 1 else None


@cache
def _initialiser(options: Options) -> Callable[..., TrainState]:
    return jax.jit(_init, static_argnums=(0, 1), compiler_options=dict(options))


@cache
def _stepper(options: Options) -> Callable[..., tuple[TrainState, Metrics]]:
    return jax.jit(_advance, static_argnums=0, donate_argnums=1, compiler_options=dict(options))


def _init(problem: Problem, optim: OptimSpec, members: Member) -> TrainState:
    return jax.vmap(partial(solo.init, problem, optim))(members)


def _advance(plan: Plan, state: TrainState, members: Member) -> tuple[TrainState, Metrics]:
    n_members = members.init_key.shape[0]
    one_group = plan.common == n_members
    chunk = partial(_chunk, plan, one_group)
    if not isinstance(plan.mesh, Mesh):
        return chunk(state, members)
    unit = 1 if one_group else plan.common
    return over_members(chunk, plan.mesh, n_members, unit)(state, members)


def _chunk(
    plan: Plan, one_group: bool, state: TrainState, members: Member
) -> tuple[TrainState, Metrics]:
    n_members = members.init_key.shape[0]
    shared = n_members if one_group else plan.common
    # -1 would fail: a model without layers has arrays without entries.
    n_groups = n_members // shared
    groups = jax.tree.map(lambda leaf: leaf.reshape(n_groups, shared, *leaf.shape[1:]), members)
    over = _over(plan.mapping)

    def one_group_step(state: TrainState, group: Member) -> tuple[TrainState, Metrics]:
        # Diverged members keep their step, and all others are at the same one.
        batch = plan.problem.batch(group.data_key[0], jnp.max(state.step))
        one_member = partial(solo.step, plan.problem, plan.optim, batch=batch)
        if shared == 1:
            out = one_member(*jax.tree.map(lambda leaf: leaf[0], (state, group)))
            return jax.tree.map(lambda leaf: leaf[None], out)
        return over(one_member)(state, group)

    # Keys of the hardware generators are not independent under vmap.
    threefry = str(jax.random.key_impl(members.data_key)) == "threefry2x32"
    over_groups = over if threefry else _loop

    def one_step(state: TrainState) -> tuple[TrainState, Metrics]:
        if groups.init_key.shape[0] == 1:
            return one_group_step(state, members)
        split = jax.tree.map(lambda leaf: leaf.reshape(n_groups, shared, *leaf.shape[1:]), state)
        out = over_groups(one_group_step)(split, groups)
        return jax.tree.map(lambda leaf: leaf.reshape(n_members, *leaf.shape[2:]), out)

    return scan_steps(one_step, state, plan.chunk)


def _over(mapping: Mapping) -> Callable:
    if mapping is Mapping.auto:
        mapping = Mapping.loop if jax.default_backend() == "cpu" else Mapping.vmap
    return _loop if mapping is Mapping.loop else jax.vmap


def _loop(fn: Callable) -> Callable:
    return lambda *trees: jax.lax.map(lambda args: fn(*args), trees)


def _of_impl(keys: Key[Array, " group"], impl: str) -> Key[Array, " group"]:
    size = jax.random.key_data(jax.random.key(0, impl=impl)).shape[0]
    bits = jax.vmap(lambda key: jax.random.bits(key, (size,), jnp.uint32))(keys)
    return jax.random.wrap_key_data(bits, impl=impl)


def _check_common(common: int, n_members: int) -> None:
    if common < 1 or n_members % common:
        raise ValueError(f"common={common} must divide the number of members, {n_members}")
