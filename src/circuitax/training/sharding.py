"""Training on several devices: members side by side, and each batch split among devices.

A mesh has two axes. Along ``member`` each device trains its own members, and no device waits for
another. Along ``data`` devices hold the same members and share their batches: the compiler sums
the gradient over them, so one large model uses them all.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

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
