"""Ensembles over several devices: each trains its own members, and none waits for another."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

_MEMBER = PartitionSpec("member")


def member_mesh(n_devices: int | None = None) -> Mesh:
    """A mesh of one axis, ``member``, over the first ``n_devices`` devices (all when None).

    Raises:
        ValueError: If there are fewer devices, or ``n_devices`` is less than 1.
    """
    devices = jax.devices()
    n = len(devices) if n_devices is None else n_devices
    if not 1 <= n <= len(devices):
        raise ValueError(f"n_devices={n} must be in [1, {len(devices)}], the devices at hand")
    # The default would be Explicit axes, which refuse the plain code inside.
    return jax.make_mesh((n,), ("member",), axis_types=(AxisType.Auto,), devices=devices[:n])


def over_members(
    fn: Callable[..., Any], mesh: Mesh, n_members: int, unit: int
) -> Callable[..., Any]:
    """``fn`` on trees with a leading axis of members, split over the mesh.

    The axis is padded by repeating the last member, since it must divide the devices; the copies
    are dropped before anything is returned, so checkpoints only ever hold the members asked for.

    Args:
        fn: Takes trees with a leading axis of members and returns such trees; called once a
            device with that device's members.
        mesh: From `member_mesh`.
        n_members: Length of the axis.
        unit: Consecutive members that must share a device.
    """
    whole = unit * mesh.size
    padded = -(-n_members // whole) * whole
    index = jnp.minimum(jnp.arange(padded), n_members - 1)
    split = jax.shard_map(fn, mesh=mesh, in_specs=_MEMBER, out_specs=_MEMBER, check_vma=False)

    def on_mesh(*trees: PyTree) -> PyTree:
        if padded == n_members:
            return split(*trees)
        out = split(*jax.tree.map(lambda leaf: leaf[index], trees))
        return jax.tree.map(lambda leaf: leaf[:n_members], out)

    return on_mesh


def place(tree: PyTree, mesh: Mesh, n_members: int) -> PyTree:
    """The tree on the mesh: split over members if they divide the devices, else copied to each."""
    spec = _MEMBER if n_members % mesh.size == 0 else PartitionSpec()
    return jax.device_put(tree, NamedSharding(mesh, spec))
