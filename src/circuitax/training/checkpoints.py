"""Checkpoints of training states: the only module that uses Orbax."""

import hashlib
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding
from jaxtyping import PyTree

# Items of one Orbax step: the arrays, and the checksum that they had.
_STATE, _CHECKSUM = "state", "checksum"


class Unreadable(ValueError):
    """A checkpoint that is damaged, or that holds another state than the requested one."""


class Checkpoints:
    """Numbered checkpoints of one pytree in a folder, written atomically."""

    def __init__(self, folder: str | Path, keep: int = 2) -> None:
        if keep < 1:
            raise ValueError(f"keep={keep} must be at least 1, or nothing could be resumed")
        # Half a second, which only runs that are long, stopped or resumed need.
        import orbax.checkpoint as ocp

        self._args = ocp.args
        latest_n = ocp.checkpoint_managers.LatestN(keep)
        # After a kill Orbax would clean up in a thread that outlives short processes. What is left
        # carries a suffix, is never read, and goes when the step is written again.
        options = ocp.CheckpointManagerOptions(preservation_policy=latest_n, create=True)
        self._manager = ocp.CheckpointManager(
            Path(folder).absolute(), options=options, item_names=(_STATE, _CHECKSUM)
        )

    def save(self, step: int, state: PyTree) -> None:
        """Write ``state`` as ``step``; a step already on disk is left as it is."""
        latest = self.latest()
        if step < 0:
            raise ValueError(f"step={step} must be 0 or more")
        if latest is not None and step < latest:
            raise ValueError(f"step={step} must not be before the latest checkpoint, {latest}")
        if step == latest:
            return
        # Wrapped, since Orbax refuses a tree that is a single array.
        saves = {_STATE: self._args.StandardSave({_STATE: _without_empty(state)})}
        saves[_CHECKSUM] = self._args.JsonSave({_CHECKSUM: _checksum(state)})
        self._manager.save(step, args=self._args.Composite(**saves))

    def steps(self) -> list[int]:
        """The numbers of all complete checkpoints on disk, the earliest first."""
        self.wait()  # a save under way is not yet listed
        return sorted(self._manager.all_steps())

    def latest(self) -> int | None:
        """The number of the last complete checkpoint, or None."""
        return self._manager.latest_step()

    def restore(self, step: int, abstract: PyTree) -> PyTree:
        """The state saved as ``step``, with the structure, types and placement of ``abstract``."""
        if step not in self.steps():
            raise ValueError(f"step={step} must be one of the checkpoints on disk, {self.steps()}")
        target = {_STATE: jax.tree.map(_placed, _without_empty(abstract))}
        args = {_STATE: self._args.StandardRestore(target), _CHECKSUM: self._args.JsonRestore()}
        try:
            items = self._manager.restore(step, args=self._args.Composite(**args))
            restored, expected = items[_STATE][_STATE], items[_CHECKSUM][_CHECKSUM]
        except (MemoryError, jax.errors.JaxRuntimeError):
            raise
        except Exception as error:  # Orbax and its stores raise many kinds for a damaged file
            text = " ".join(str(error).split())
            raise Unreadable(
                f"step={step} cannot be read: {type(error).__name__}: {text}"
            ) from error
        if _checksum(restored) != expected:
            raise Unreadable(f"step={step} is damaged: its checksum is another")
        found = iter(jax.tree.leaves(restored))
        return jax.tree.map(
            lambda leaf: next(found) if leaf.size else jnp.zeros(leaf.shape, leaf.dtype), abstract
        )

    def look_again(self) -> None:
        """Reread the steps on disk after one was removed, so that it can be saved again."""
        self._manager.reload()

    def wait(self) -> None:
        """Wait until all saves are on disk."""
        self._manager.wait_until_finished()

    def close(self) -> None:
        """Finish the saves and free the threads; the object must not be used afterwards."""
        self._manager.wait_until_finished()
        self._manager.close()

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _without_empty(state: PyTree) -> PyTree:
    # Orbax refuses arrays without entries, which a model without layers has.
    return jax.tree.map(lambda leaf: leaf if leaf.size else None, state)


def _placed(leaf: Any) -> jax.ShapeDtypeStruct:
    # Otherwise Orbax would use the devices of the saved leaf, which this run may not have.
    sharding = getattr(leaf, "sharding", None)
    if sharding is None:
        sharding = SingleDeviceSharding(jax.devices()[0])
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def _checksum(state: PyTree) -> str:
    """SHA-256 of the values of all leaves, independent of their devices."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(state):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        if leaf.size:
            digest.update(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
