"""The lab: the interface of an experiment to computing and I/O."""

import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh

from circuitax.lab.arrays import Damaged, load_tree, save_tree
from circuitax.lab.loop import Advance, ChunkLoop, State
from circuitax.lab.progress import Progress, Stream
from circuitax.lab.runs import ARRAYS
from circuitax.lab.set_aside import set_aside
from circuitax.lab.stages import load_stage, save_stage
from circuitax.lab.stop import StopFlag
from circuitax.records.record import Record
from circuitax.records.store import write_text
from circuitax.training.ensemble import every_device

Item = TypeVar("Item")
LOG = logging.getLogger("circuitax")


class Lab:
    """Chunks, progress, checkpoints, the stop flag and upstream results of one run.

    Args:
        folder: Work folder; what is in it already is resumed.
        stop: Flag that a signal sets.
        inputs: Folder of each upstream run, by experiment.
        checkpoint_seconds: Time between two checkpoints of a loop.
        stream: Where progress is written; standard error when None.
    """

    def __init__(
        self,
        folder: Path,
        *,
        stop: StopFlag | None = None,
        inputs: Mapping[str, Path] | None = None,
        checkpoint_seconds: float = 30.0,
        stream: Stream | None = None,
    ) -> None:
        self.folder = folder
        self._stop = StopFlag() if stop is None else stop
        self._inputs = dict(inputs or {})
        self._checkpoint_seconds = checkpoint_seconds
        self._stream = stream
        self._names: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def mesh(self) -> Mesh | None:
        """Device mesh of an ensemble, as `ensemble.Plan` takes it; None for a single device."""
        return every_device()

    def loop(
        self,
        name: str,
        state: State,
        advance: Advance[State],
        n_chunks: int,
        *,
        show: str | None = None,
    ) -> tuple[State, dict[str, np.ndarray]]:
        """Advance a state chunk by chunk; resumes where an earlier session stopped.

        Args:
            name: Name of the loop; a run uses each name once.
            state: A pytree of arrays. It may be donated: do not read it again.
            advance: One compiled chunk of at most about five seconds, state to state and metrics.
            n_chunks: Chunks in all.
            show: Metric shown beside the progress (its mean where it is an array).

        Returns:
            The last state, and every metric stacked along a leading axis of chunks.

        Raises:
            ValueError: If ``name`` is used twice or is no file name, ``n_chunks`` is less than 1,
                or ``show`` is no metric.
            Diverged: If the state is a ``TrainState`` none of whose members is alive.
            Stopped: After a checkpoint, when a signal asked for it.
        """
        self._claim(name)
        if n_chunks < 1:
            raise ValueError(f"n_chunks={n_chunks} of loop {name!r} must be at least 1")
        chunks = ChunkLoop(
            name, self.folder, self._stop, self._checkpoint_seconds, self.log, self._stream
        )
        state, metrics = chunks.run(state, advance, n_chunks, show)
        if chunks.seconds:
            first, rest = chunks.seconds[0], chunks.seconds[1:]
            then = f", then {float(np.median(rest)):.3f} s each" if rest else ""
            LOG.info(
                "%s: %d chunks, %.2f s the first with compilation%s",
                name,
                len(chunks.seconds),
                first,
                then,
            )
        return state, metrics

    def track(
        self, iterable: Iterable[Item], name: str, total: int | None = None
    ) -> Iterator[Item]:
        """The items of a Python loop with progress; a signal ends it between two items.

        Args:
            iterable: What to go through.
            name: Shown before the bar.
            total: Number of items, when ``iterable`` has no length.

        Raises:
            Stopped: When a signal asked for it; use ``stage`` for what takes long to compute.
        """
        if total is None and isinstance(iterable, Sized):
            total = len(iterable)
        bar = Progress(name, total, unit="item", stream=self._stream)
        try:
            for item in iterable:
                self._stop.raise_if_set()
                yield item
                bar.advance()
        finally:
            bar.close()

    def stage(self, name: str, fn: Callable[..., Any], *args: Any) -> Any:
        """``fn(*args)`` as NumPy arrays, computed once and cached for resuming.

        Args:
            name: Name of the stage; a run uses each name once.
            fn: Pure function; its result is arrays of numbers or text in dicts, lists, tuples and
                NamedTuples.
            *args: Its arguments.

        Raises:
            ValueError: If ``name`` is used twice or is no file name, or the result holds anything
                else.
            Stopped: Before the stage, when a signal asked for it.
        """
        self._claim(name)
        path = self.folder / "stages" / f"{name}.safetensors"
        if path.exists():
            try:
                return load_stage(path)
            except Damaged as error:
                set_aside(path, self.folder, f"stage {name} is computed again: {error}", self.log)
        self._stop.raise_if_set()
        began = time.monotonic()
        result = jax.tree.map(np.asarray, fn(*args))
        save_stage(path, result)
        LOG.info("%s: %.2f s with compilation", name, time.monotonic() - began)
        return result

    def input(self, name: str) -> Record:
        """The record of an upstream experiment named in the experiment's ``requires``.

        Raises:
            ValueError: If ``requires`` does not name it.
        """
        return Record.load(self._input_folder(name))

    def save_arrays(self, name: str, tree: Any) -> None:
        """Save a pytree of arrays, such as trained weights, beside the record.

        Raises:
            ValueError: If ``name`` is no file name, or a leaf is not an array of numbers.
        """
        _check_name(name)
        save_tree(self.folder / ARRAYS / f"{name}.safetensors", tree)

    def load_arrays(
        self, name: str, *, source: str | None = None, like: Any = None, leading: int = 0
    ) -> Any:
        """Arrays saved by this run, or by an upstream experiment.

        Args:
            name: Name they were saved by.
            source: Experiment named in ``requires``; None for this run.
            like: A pytree with the structure and shapes wanted; None for a flat dict by name.
            leading: Axes in front of every shape of ``like``.

        Raises:
            ValueError: If they were not saved, or ``like`` has other names or shapes.
        """
        folder = self.folder if source is None else self._input_folder(source)
        return load_tree(folder / ARRAYS / f"{name}.safetensors", like, leading=leading)

    def save_text(self, name: str, text: str) -> None:
        """Save a text file, such as a tokenizer, beside the arrays; ``name`` has its suffix.

        Raises:
            ValueError: If ``name`` is no file name.
        """
        _check_name(name)
        write_text(self.folder / ARRAYS / name, text)

    def log(self, message: str) -> None:
        """Write one line to the terminal and to the log of the run."""
        LOG.info(message)
        print(message, file=self._stream or sys.stderr)

    def _input_folder(self, name: str) -> Path:
        if name not in self._inputs:
            raise ValueError(f"input {name!r} must be named in requires={sorted(self._inputs)}")
        return self._inputs[name]

    def _claim(self, name: str) -> None:
        _check_name(name)
        if name in self._names:
            raise ValueError(f"name={name!r} is used twice in one run")
        self._names.add(name)


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.=-]*", name):
        raise ValueError(f"name={name!r} must be letters, digits and _.=- : it becomes a file name")
