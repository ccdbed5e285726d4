"""A loop over compiled chunks with progress, checkpoints, stopping and resuming."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from circuitax.lab.arrays import Damaged, load_tree, save_tree
from circuitax.lab.metric_lines import METRICS, metric_lines
from circuitax.lab.progress import Progress, Stream
from circuitax.lab.set_aside import set_aside
from circuitax.lab.stop import StopFlag
from circuitax.records.store import write_text
from circuitax.training.checkpoints import Checkpoints
from circuitax.training.problem import TrainState

State = TypeVar("State")
Advance = Callable[[State], tuple[State, dict[str, Any]]]

# A finished loop shorter than this is cheaper to run again than to keep.
WORTH_KEEPING_SECONDS = 5.0


class Diverged(RuntimeError):
    """All members of a training run have diverged; one line for the person who chose its rate."""


class ChunkLoop:
    """One named loop of a run, with its folder of checkpoints.

    Args:
        name: Name of the loop, shown and used for its files.
        folder: Work folder of the run.
        stop: Asked at every border between chunks.
        checkpoint_seconds: Time between two checkpoints.
        say: Told, a line each, which checkpoints cannot be read.
        stream: Where progress is written; standard error when None.
    """

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
        self._work = folder
        self._folder = folder / "loops" / name
        self._states = self._folder / "state"
        self._log = folder / METRICS
        self._rows: list[dict[str, np.ndarray]] = []
        self._checkpoints: Checkpoints | None = None
        self._saved_at = 0  # chunk of the last checkpoint
        self.seconds: list[float] = []  # of each chunk of this session
        self.state: Any = None  # after the last chunk, also where a signal ended the loop

    def run(
        self, state: State, advance: Advance, n_chunks: int, show: str | None
    ) -> tuple[State, dict[str, np.ndarray]]:
        """Advance ``state`` by ``n_chunks`` chunks, counting those of earlier sessions."""
        state, start = self._resume(state, n_chunks)
        self.state = state
        self._forget_lines_from(start)
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
                self._write_line(chunk)
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

    def _require_alive(self, state: Any) -> None:
        if not isinstance(state, TrainState) or np.any(np.asarray(state.alive)):
            return
        steps = np.asarray(state.step).ravel()
        raise Diverged(
            f"{self._name}: all {steps.size} members diverged, the last after {steps.max()} "
            "updates: loss or gradient was not finite; a smaller learning rate may help"
        )

    def _resume(self, state: State, n_chunks: int) -> tuple[State, int]:
        steps = self._steps(n_chunks)
        if not steps:
            return state, 0
        checkpoints = self._open()
        for step in reversed(steps):
            try:
                kept = self._kept_metrics(step)
                resumed = checkpoints.restore(step, state)
            except (ValueError, OSError) as error:  # damaged, not there, or of another state
                wrong = " ".join(str(error).split())
                self._set_aside(self._states / str(step), f"checkpoint {step} is left out: {wrong}")
                checkpoints.look_again()
                continue
            self._rows = [{key: kept[key][chunk] for key in kept} for chunk in range(step)]
            self._saved_at = step
            return resumed, step
        return state, 0

    def _steps(self, n_chunks: int) -> list[int]:
        """Resumable checkpoints, the earliest first; unreadable ones are set aside."""
        steps = []
        for path in (self._folder, self._states):
            if path.exists() and not path.is_dir():
                self._set_aside(path, f"{path.name} is no folder")
        for path in sorted(self._states.iterdir()) if self._states.exists() else ():
            # What Orbax was writing when it was killed carries a suffix, and is written again.
            if path.name.isdecimal() and path.is_dir() and 0 < int(path.name) <= n_chunks:
                steps.append(int(path.name))
            elif "tmp" not in path.name:
                self._set_aside(path, f"{path.name} is none of its {n_chunks} checkpoints")
        return sorted(steps)

    def _kept_metrics(self, step: int) -> dict[str, np.ndarray]:
        kept: dict[str, np.ndarray] = load_tree(self._metrics_file(step))
        if short := [key for key, rows in kept.items() if np.shape(rows)[:1] != (step,)]:
            raise Damaged(f"its metric {short[0]!r} has not {step} rows")
        return kept

    def _set_aside(self, path: Path, wrong: str) -> None:
        set_aside(path, self._work, f"loop {self._name}: {wrong}", self._say)

    def _save(self, chunk: int, state: Any) -> None:
        if chunk == self._saved_at:
            return
        # The metrics first: a checkpoint on disk then always has its own.
        save_tree(self._metrics_file(chunk), self.metrics())
        self._open().save(chunk, state)
        for path in self._folder.glob("metrics-*.safetensors"):
            number = path.stem.removeprefix("metrics-")
            if number.isdecimal() and int(number) < self._saved_at:
                path.unlink()
        self._saved_at = chunk

    def _metrics_file(self, chunk: int) -> Path:
        return self._folder / f"metrics-{chunk}.safetensors"

    def _open(self) -> Checkpoints:
        if self._checkpoints is None:
            self._checkpoints = Checkpoints(self._states)
        return self._checkpoints

    def _close(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.close()
            self._checkpoints = None

    def metrics(self) -> dict[str, np.ndarray]:
        """Every metric of the chunks done, stacked along a leading axis."""
        if not self._rows:
            return {}
        return {key: np.stack([row[key] for row in self._rows]) for key in self._rows[0]}

    def _shown(self, show: str | None) -> str:
        if show is None:
            return ""
        if show not in self._rows[-1]:
            raise ValueError(f"show={show!r} must be one of the metrics {sorted(self._rows[-1])}")
        mean = _summary(self._rows[-1][show])["mean"]
        return f"{show} nan" if mean is None else f"{show} {mean:.4g}"

    def _write_line(self, chunk: int) -> None:
        line = {"loop": self._name, "chunk": chunk, "seconds": round(self.seconds[-1], 4)}
        for key, value in self._rows[-1].items():
            line[key] = _summary(value)
        with self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _forget_lines_from(self, start: int) -> None:
        # Chunks after the last checkpoint are computed, and written, again.
        lines = list(metric_lines(self._log))
        if not lines:
            return
        if any(line.row is None for line in lines[:-1]):  # the last was cut short by a kill
            self._set_aside(self._log, f"lines of {METRICS} cannot be read, the others are kept")
        kept = [
            text
            for text, row in lines
            if row is not None and (row["loop"] != self._name or row["chunk"] < start)
        ]
        write_text(self._log, "".join(f"{text}\n" for text in kept))


def _summary(value: np.ndarray) -> dict[str, Any]:
    numbers = np.asarray(value, dtype=np.float64).ravel()
    finite = numbers[np.isfinite(numbers)]
    if finite.size == 0:
        return {"mean": None, "finite": 0}  # JSON has no nan
    summary: dict[str, Any] = {"mean": float(finite.mean())}
    if numbers.size > 1:
        summary |= {"min": float(finite.min()), "max": float(finite.max())}
    if finite.size < numbers.size:
        summary["finite"] = int(finite.size)
    return summary
