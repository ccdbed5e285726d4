"""Ensembles: many members in one compilation, on one device or many, and the best of them.

A mesh has two axes. Along ``member`` each device trains its own members, and no device waits for
another. Along ``data`` devices hold the same members and share their batches: the compiler sums
the gradient over them, so one large model uses them all.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from circuitax.kernel.checks import check_range, choose_fields
from circuitax.kernel.compiled import Options, options_for
from circuitax.kernel.keys import derive, in_a_row, member_keys
from circuitax.training import problem as solo
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import Member, Metrics, Problem, TrainState, scan_steps

_MEMBER = PartitionSpec("member")
AXES = ("member", "data")
# Samples that a device must at least have: with fewer, it waits for sums over devices.
_FEWEST = 16


def device_mesh(n_devices: int | None = None, *, data: int = 1) -> Mesh:
    """A mesh ``member × data`` over the first ``n_devices`` devices (all when None)."""
    devices = jax.devices()
    n = len(devices) if n_devices is None else n_devices
    if not 1 <= n <= len(devices):
        raise ValueError(f"n_devices={n} must be in [1, {len(devices)}], the devices at hand")
    if data < 1 or n % data:
        raise ValueError(f"data={data} must divide the number of devices, {n}")
    # By default axes would be Explicit, which the functions here are not written for.
    types = (AxisType.Auto,) * 2
    return jax.make_mesh((n // data, data), AXES, axis_types=types, devices=devices[:n])


def every_device() -> Mesh | None:
    """A mesh with all devices along ``member``, or None where there is one to train on."""
    cores = jax.config.values["jax_num_cpu_devices"]
    split = jax.default_backend() != "cpu" or cores > 1
    alone = jax.process_count() == 1
    return device_mesh() if split and alone and len(jax.devices()) > 1 else None


def check_mesh(mesh: Mesh | str | None) -> None:
    """Require a valid argument ``mesh`` of a training."""
    if isinstance(mesh, str):
        if mesh != "auto":
            raise ValueError(f"mesh={mesh!r} must be 'auto', a mesh or None")
    elif mesh is not None and mesh.axis_names != AXES:
        raise ValueError(f"mesh has axes {mesh.axis_names}, must have {AXES}")


def shared_batches(mesh: Mesh, n_members: int, n_samples: int) -> Mesh:
    """The same devices, sharing batches when they outnumber members."""
    n_devices, most = mesh.devices.size, max(1, mesh.devices.size // n_members)
    data = max(
        d
        for d in range(1, most + 1)
        if n_devices % d == 0 and n_samples % d == 0 and (d == 1 or n_samples // d >= _FEWEST)
    )
    if data == 1 or mesh.shape["data"] > 1:
        return mesh
    devices = mesh.devices.reshape(n_devices // data, data)
    return Mesh(devices, AXES, axis_types=(AxisType.Auto,) * 2)


def over_members(
    fn: Callable[..., Any], mesh: Mesh, n_members: int, unit: int
) -> Callable[..., Any]:
    """``fn`` on trees with a leading axis of members, split over the mesh."""
    whole = unit * mesh.shape["member"]
    padded = -(-n_members // whole) * whole
    index = jnp.minimum(jnp.arange(padded), n_members - 1)
    split = jax.shard_map(
        fn,
        mesh=mesh,
        in_specs=_MEMBER,
        out_specs=_MEMBER,
        axis_names={"member"},
        check_vma=False,
    )

    def on_mesh(*trees: PyTree) -> PyTree:
        if padded == n_members:
            return split(*trees)
        out = split(*jax.tree.map(lambda leaf: leaf[index], trees))
        return jax.tree.map(lambda leaf: leaf[:n_members], out)

    return on_mesh


def split_samples(samples: Array, axis: int = 0) -> Array:
    """The same samples, split along ``data``; no change where the mesh has no such axis."""
    n_devices = dict(jax.sharding.get_abstract_mesh().shape).get("data", 1)
    if n_devices == 1:
        return samples
    n_samples = samples.shape[axis]
    if n_samples % n_devices:
        raise ValueError(f"batch={n_samples} must be divisible by data={n_devices} of the mesh")
    spec: list[str | None] = [None] * samples.ndim
    spec[axis] = "data"
    return jax.lax.with_sharding_constraint(samples, PartitionSpec(*spec))


def place(tree: PyTree, mesh: Mesh, n_members: int) -> PyTree:
    """The tree on the mesh: split over members if they divide it evenly, else copied to each."""
    spec = _MEMBER if n_members % mesh.shape["member"] == 0 else PartitionSpec()
    sharding = NamedSharding(mesh, spec)
    return jax.tree.map(lambda leaf: _put(leaf, sharding), tree)


def _put(leaf: Array, sharding: NamedSharding) -> Array:
    if isinstance(leaf, jax.core.Tracer):
        return jax.device_put(leaf, sharding)
    if leaf.sharding.is_equivalent_to(sharding, leaf.ndim):
        return leaf
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        # JAX 0.10 puts keys on devices of this process only, and their bits on all.
        bits = _put(jax.random.key_data(leaf), sharding)
        return jax.random.wrap_key_data(bits, impl=jax.random.key_impl(leaf))
    # From the host: between devices, JAX would compile a program for each shape.
    whole = np.asarray(leaf) if leaf.is_fully_addressable else leaf
    return jax.device_put(whole, sharding)


class Mapping(Enum):
    """Mapping of members to the machine; all choices give equal numbers up to rounding."""

    auto = "auto"
    """``loop`` on a CPU, ``vmap`` elsewhere; chosen where the program is lowered."""
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
        mesh: Devices to spread over (`device_mesh`): members along its axis ``member``,
            and along ``data`` each batch of problems that split theirs (`split_samples`).
            ``auto`` takes all there are (`every_device`), but none without a member of
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
    if plan.mapping is Mapping.auto and n_members > 1:
        one_by_one, at_once = (
            partial(_chunk, replace(plan, mapping=choice), one_group)
            for choice in (Mapping.loop, Mapping.vmap)
        )
        return jax.lax.platform_dependent(state, members, cpu=one_by_one, default=at_once)
    shared = n_members if one_group else plan.common
    # -1 would fail: a model without layers has arrays without entries.
    n_groups = n_members // shared
    groups = jax.tree.map(lambda leaf: leaf.reshape(n_groups, shared, *leaf.shape[1:]), members)
    over = jax.vmap if plan.mapping is Mapping.vmap else _loop

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


def _loop(fn: Callable) -> Callable:
    return lambda *trees: jax.lax.map(lambda args: fn(*args), trees)


def _of_impl(keys: Key[Array, " group"], impl: str) -> Key[Array, " group"]:
    size = jax.random.key_data(jax.random.key(0, impl=impl)).shape[0]
    bits = jax.vmap(lambda key: jax.random.bits(key, (size,), jnp.uint32))(keys)
    return jax.random.wrap_key_data(bits, impl=impl)


def _check_common(common: int, n_members: int) -> None:
    if common < 1 or n_members % common:
        raise ValueError(f"common={common} must divide the number of members, {n_members}")


RULE = (
    "lowest loss of the restarts that stayed finite; ties go to the lower index; a cell without "
    "a finite restart has number -1 and loss NaN"
)


class Best(NamedTuple):
    """The best restart of every cell, and the number of restarts."""

    restart: Int[Array, "*cell"]
    loss: Float[Array, "*cell"]
    n_alive: Int[Array, "*cell"]


def best_of(losses: Float[Array, "*cell restart"], alive: Bool[Array, "*cell restart"]) -> Best:
    """The best restart of each cell under `RULE`.

    Source: toy-models paper, "1000 models ... lowest loss shown"; Henighan et al. 2023.
    Differs: the paper's phase diagram averages all but the worst of ten.
    """
    if losses.shape[-1] < 1:
        raise ValueError("losses has no restart on its last axis, must have at least 1")
    fit = alive & jnp.isfinite(losses)
    masked = jnp.where(fit, losses, jnp.inf)
    n_alive = jnp.sum(fit, axis=-1)
    restart = jnp.where(n_alive > 0, jnp.argmin(masked, axis=-1), -1)
    loss = jnp.where(n_alive > 0, jnp.min(masked, axis=-1), jnp.nan)
    return Best(restart, loss, n_alive)


def take(tree: PyTree, restart: Int[Array, "*cell"]) -> PyTree:
    """The selected restart of each leaf ``[*cell, restart, ...]``; NaN where it is -1."""

    def pick(leaf: Array) -> Array:
        at = restart.reshape(*restart.shape, *[1] * (leaf.ndim - restart.ndim))
        chosen = jnp.take_along_axis(leaf, jnp.maximum(at, 0), axis=restart.ndim)
        return jnp.squeeze(jnp.where(at >= 0, chosen, jnp.nan), axis=restart.ndim)

    return jax.tree.map(pick, tree)


def as_cells(tree: PyTree, *cell: int) -> PyTree:
    """Split the leading axis into cells and restarts, row-major: restarts vary fastest."""
    n_members, n_cells = jax.tree.leaves(tree)[0].shape[0], 1
    for size in cell:
        n_cells *= size
    if n_cells < 1 or n_members % n_cells:
        raise ValueError(f"cell={cell} must divide the number of members, {n_members}")
    return jax.tree.map(lambda leaf: leaf.reshape(*cell, -1, *leaf.shape[1:]), tree)


def divergence(alive: Bool[Array, " member"], step: Int[Array, " member"]) -> dict[str, Any]:
    """Diverged members for the notes of a record: their number out of all, indices, and steps."""
    dead = [i for i, ok in enumerate(alive.tolist()) if not ok]
    at = {str(i): int(step[i]) for i in dead}
    return {"members": int(alive.shape[0]), "diverged": len(dead), "after_steps": at}
