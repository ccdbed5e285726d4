"""A loop over compiled chunks: progress, checkpoints, stopping, and resuming to the same bits."""

import math
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from io import TextIOBase
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TextIO, TypeVar

import numpy as np
from tqdm import tqdm

from circuitax.lab.arrays import load_tree, save_tree
from circuitax.training.checkpoints import Checkpoints
from circuitax.training.problem import TrainState

State = TypeVar("State")
Advance = Callable[[State], tuple[State, dict[str, Any]]]
Stream = TextIO | TextIOBase
SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A group of processes is often told twice, directly and by the process that started them.
TOGETHER_SECONDS = 1.0
# A finished loop shorter than this is cheaper to run again than to keep.
WORTH_KEEPING_SECONDS = 5.0
LINE_SECONDS = 30.0  # between two lines of progress where there is no terminal


class Stopped(BaseException):
    """The run was asked to stop and has saved its state; the same command resumes it.

    Not an ``Exception``, so that neither an experiment nor Hydra takes it for a failed job.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_status(self) -> int:
        """Exit status of a process ended by this signal: 130 or 143."""
        return 128 + self.number


class Diverged(RuntimeError):
    """All members of a training run have diverged; one line for the person who chose its rate."""


class StopFlag:
    """Context in which the first SIGINT or SIGTERM sets ``number`` and does nothing else.

    The handler runs in the middle of a chunk, while the state is donated: there is nothing to save
    there. A second signal, unless it comes at once, acts as it would have without the flag.
    """

    def __init__(self, signals: Sequence[signal.Signals] = SIGNALS) -> None:
        self.number: int | None = None
        self._signals = signals
        self._noted = math.inf
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopFlag":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in self._signals}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def raise_if_set(self) -> None:
        """Raise ``Stopped`` if a signal has come."""
        if self.number is not None:
            raise Stopped(self.number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.number is None:
            self.number, self._noted = number, now
            os.write(2, b"\nstopping at the next border between chunks; once more stops at once\n")
        elif now - self._noted >= TOGETHER_SECONDS:
            self._restore()
            signal.raise_signal(number)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


class Progress:
    """Rate, remaining time and one metric of a loop: a bar on a terminal, elsewhere rare lines."""

    def __init__(
        self,
        name: str,
        total: int | None,
        start: int = 0,
        unit: str = "chunk",
        stream: Stream | None = None,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._name, self._total, self._unit = name, total, unit
        self._start = self._done = start
        self._began = self._said = time.monotonic()
        self._bar: Any = None
        if self._stream.isatty():
            self._bar = tqdm(
                total=total, initial=start, desc=name, unit=unit, file=self._stream, leave=False
            )

    def advance(self, shown: str = "") -> None:
        """Count one iteration, and show a number such as ``"loss 0.0123"``."""
        self._done += 1
        if self._bar is not None:
            self._bar.set_postfix_str(shown, refresh=False)
            self._bar.update()
        elif time.monotonic() - self._said >= LINE_SECONDS:
            self._said = time.monotonic()
            rate = (self._done - self._start) / (self._said - self._began)
            parts = [f"{self._name}: {self._done}/{self._total or '?'} {self._unit}s"]
            if self._total is not None:
                parts.append(f"{(self._total - self._done) / rate:.0f} s left")
            self._stream.write(", ".join([*parts, *filter(None, [shown])]) + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()


class ChunkLoop:
    """One named loop of a run, with its folder of checkpoints below the run's work folder."""

    def __init__(
        self,
        name: str,
        folder: Path,
        stop: StopFlag,
        checkpoint_seconds: float,
        say: Callable[[str], None],
        stream: Stream | None = None,
    ) -> None:
        self._name, self._stop, self._say, self._stream = name, stop, say, stream
        self._every = checkpoint_seconds
        self._folder = folder / "loops" / name
        self._rows: list[dict[str, np.ndarray]] = []
        self._checkpoints: Checkpoints | None = None
        self._saved_at = 0  # chunk of the last checkpoint
        self.seconds: list[float] = []  # of each chunk of this session
        self.state: Any = None  # after the last chunk, also where a signal ended the loop

    def run(
        self, state: State, advance: Advance, n_chunks: int, show: str | None
    ) -> tuple[State, dict[str, np.ndarray]]:
        """Advance ``state`` by ``n_chunks`` chunks, counting those of earlier sessions."""
        state, start = self._resumed(state, n_chunks)
        self.state = state
        bar = Progress(self._name, n_chunks, start, stream=self._stream)
        saved = time.monotonic()
        try:
            for chunk in range(start, n_chunks):
                if self._stop.number is not None:
                    self._save(chunk, state)
                    self._close()
                    self._stop.raise_if_set()
                began = time.monotonic()
                state, metrics = advance(state)
                self.state = state
                self._require_alive(state)
                # One transfer a chunk; it also waits for the chunk to end.
                self._rows.append({key: np.asarray(value) for key, value in metrics.items()})
                self.seconds.append(time.monotonic() - began)
                bar.advance(self._shown(show))
                if time.monotonic() - saved > self._every:
                    self._save(chunk + 1, state)
                    saved = time.monotonic()
            if time.monotonic() - saved > WORTH_KEEPING_SECONDS:
                self._save(n_chunks, state)
        finally:
            bar.close()
            self._close()
        return state, self.metrics()

    def metrics(self) -> dict[str, np.ndarray]:
        """Every metric of the chunks done, stacked along a leading axis."""
        if not self._rows:
            return {}
        return {key: np.stack([row[key] for row in self._rows]) for key in self._rows[0]}

    def _require_alive(self, state: Any) -> None:
        if not isinstance(state, TrainState) or np.any(np.asarray(state.alive)):
            return
        steps = np.asarray(state.step).ravel()
        raise Diverged(
            f"{self._name}: all {steps.size} members diverged, the last after {steps.max()} "
            "updates: loss or gradient was not finite; a smaller learning rate may help"
        )

    def _resumed(self, state: State, n_chunks: int) -> tuple[State, int]:
        """The latest checkpoint that can be read, with its number of chunks done."""
        if not (self._folder / "state").is_dir():
            return state, 0
        checkpoints = self._open()
        for step in reversed([step for step in checkpoints.steps() if 0 < step <= n_chunks]):
            try:
                kept = load_tree(self._metrics_file(step))
                resumed = checkpoints.restore(step, state)
            except (ValueError, OSError) as error:  # damaged, or of another state
                self._say(f"loop {self._name}: checkpoint {step} is left out: {error}")
                shutil.rmtree(self._folder / "state" / str(step), ignore_errors=True)
                checkpoints.look_again()
                continue
            self._rows = [{key: kept[key][chunk] for key in kept} for chunk in range(step)]
            self._saved_at = step
            if step < n_chunks:
                self._say(f"loop {self._name}: resumed from chunk {step} of {n_chunks}")
            return resumed, step
        return state, 0

    def _save(self, chunk: int, state: Any) -> None:
        if chunk == self._saved_at:
            return
        # The metrics first: a checkpoint on disk then always has its own.
        save_tree(self._metrics_file(chunk), self.metrics())
        self._open().save(chunk, state)
        for path in self._folder.glob("metrics-*.safetensors"):
            if int(path.stem.removeprefix("metrics-")) < self._saved_at:
                path.unlink()
        self._saved_at = chunk

    def _metrics_file(self, chunk: int) -> Path:
        return self._folder / f"metrics-{chunk}.safetensors"

    def _open(self) -> Checkpoints:
        if self._checkpoints is None:
            self._checkpoints = Checkpoints(self._folder / "state")
        return self._checkpoints

    def _close(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.close()
            self._checkpoints = None

    def _shown(self, show: str | None) -> str:
        if show is None:
            return ""
        if show not in self._rows[-1]:
            raise ValueError(f"show={show!r} must be one of the metrics {sorted(self._rows[-1])}")
        numbers = np.asarray(self._rows[-1][show], dtype=np.float64)
        finite = numbers[np.isfinite(numbers)]
        return f"{show} {finite.mean():.4g}" if finite.size else f"{show} nan"
