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

from circuitax.lab.arrays import Damaged, load_stage, load_tree, save_stage, save_tree
from circuitax.lab.loop import Advance, ChunkLoop, Progress, State, StopFlag, Stream
from circuitax.lab.runs import ARRAYS
from circuitax.records.record import Record
from circuitax.records.store import write_text
from circuitax.training.ensemble import every_device

Item = TypeVar("Item")
LOG = logging.getLogger("circuitax")


class Lab:
    """Chunks, progress, checkpoints, the stop flag and upstream results of one run."""

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
        """Advance a state chunk by chunk; resumes where an earlier session stopped."""
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
        """The items of a Python loop with progress; a signal ends it between two items."""
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
        """``fn(*args)`` as NumPy arrays, computed once and cached for resuming."""
        self._claim(name)
        path = self.folder / "stages" / f"{name}.safetensors"
        if path.exists():
            try:
                return load_stage(path)
            except Damaged as error:
                self.log(f"stage {name} is computed again: {error}")
        self._stop.raise_if_set()
        began = time.monotonic()
        result = jax.tree.map(np.asarray, fn(*args))
        save_stage(path, result)
        LOG.info("%s: %.2f s with compilation", name, time.monotonic() - began)
        return result

    def input(self, name: str) -> Record:
        """The record of an upstream experiment named in the experiment's ``requires``."""
        return Record.load(self._input_folder(name))

    def save_arrays(self, name: str, tree: Any) -> None:
        """Save a pytree of arrays, such as trained weights, beside the record."""
        _check_name(name)
        save_tree(self.folder / ARRAYS / f"{name}.safetensors", tree)

    def load_arrays(
        self, name: str, *, source: str | None = None, like: Any = None, leading: int = 0
    ) -> Any:
        """Arrays saved by this run, or by an upstream experiment."""
        folder = self.folder if source is None else self._input_folder(source)
        return load_tree(folder / ARRAYS / f"{name}.safetensors", like, leading=leading)

    def save_text(self, name: str, text: str) -> None:
        """Save a text file, such as a tokenizer, beside the arrays; ``name`` has its suffix."""
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
