"""A loop stops at a border between chunks and goes on from its checkpoint with the same bits."""

import io
import os
import signal
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.lab.loop import ChunkLoop, Diverged, Progress, StopFlag, Stopped
from circuitax.training.problem import TrainState


class Walk(NamedTuple):
    position: jax.Array
    key: jax.Array


@jax.jit
def advance(walk: Walk) -> tuple[Walk, dict[str, jax.Array]]:
    key, step = jax.random.split(walk.key)
    position = walk.position * 0.9 + jax.random.normal(step, (3,))
    return Walk(position, key), {"position": position}


def start() -> Walk:
    return Walk(jnp.zeros(3), jax.random.key(1))


def loop(folder: Path, stop: StopFlag, said: list[str]) -> ChunkLoop:
    return ChunkLoop("walk", folder, stop, 0.0, said.append, io.StringIO())


def test_a_stopped_loop_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    _, whole = loop(tmp_path / "a", StopFlag(), []).run(start(), advance, 6, "position")
    calls = 0

    def interrupted(walk: Walk) -> tuple[Walk, dict[str, jax.Array]]:
        nonlocal calls
        calls += 1
        if calls == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return advance(walk)

    with StopFlag() as stop, pytest.raises(Stopped) as stopped:
        loop(tmp_path / "b", stop, []).run(start(), interrupted, 6, None)
    assert (stopped.value.exit_status, calls) == (143, 3)
    resumed = loop(tmp_path / "b", StopFlag(), [])
    _, found = resumed.run(start(), advance, 6, None)
    assert len(resumed.seconds) == 3  # of the six chunks
    np.testing.assert_array_equal(found["position"], whole["position"])


def test_a_damaged_checkpoint_is_left_out_and_the_one_before_is_taken(tmp_path: Path) -> None:
    _, whole = loop(tmp_path, StopFlag(), []).run(start(), advance, 4, None)
    metrics = tmp_path / "loops" / "walk" / "metrics-4.safetensors"
    metrics.write_bytes(metrics.read_bytes()[:-8] + bytes(8))
    said: list[str] = []
    again = loop(tmp_path, StopFlag(), said)
    _, found = again.run(start(), advance, 4, None)
    assert len(again.seconds) == 1
    assert said[0].startswith("loop walk: checkpoint 4 is left out: ")
    np.testing.assert_array_equal(found["position"], whole["position"])


def test_a_training_all_of_whose_members_diverged_ends(tmp_path: Path) -> None:
    none = jnp.zeros(2, bool)
    state = TrainState(params={}, opt_state=(), step=jnp.array([7, 9]), alive=none)

    def still(state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        return state, {"loss": jnp.ones(2)}

    with pytest.raises(Diverged, match="all 2 members diverged, the last after 9 updates"):
        loop(tmp_path, StopFlag(), []).run(state, still, 3, None)


def test_progress_is_an_occasional_line_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    bar = Progress("train", 10, start=2, stream=stream)
    now = 110.0
    bar.advance("loss 0.5")
    now = 140.0
    bar.advance("loss 0.4")
    assert stream.getvalue() == "train: 4/10 chunks, 120 s left, loss 0.4\n"
