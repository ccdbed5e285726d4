"""A loop stops at a border, resumes to the same numbers, and tells the same story twice."""

import io
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.lab.lab import Lab
from circuitax.lab.loop import Diverged
from circuitax.lab.stop import StopFlag, Stopped
from circuitax.models.toy import ToySpec
from circuitax.training import ensemble
from circuitax.training.ensemble import Plan, device_mesh, new_members
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import TrainState
from circuitax.training.toy import ToyHyper, ToyProblem


class State(NamedTuple):
    position: jax.Array
    key: jax.Array


@partial(jax.jit, donate_argnums=0)
def chunk(state: State) -> tuple[State, dict[str, jax.Array]]:
    key, step_key = jax.random.split(state.key)
    position = state.position + jax.random.normal(step_key, (2,))
    return State(position, key), {"loss": position**2, "step": position[0]}


def start() -> State:
    return State(jnp.zeros(2), jax.random.key(3))


def lab(folder: Path, **options: Any) -> Lab:
    return Lab(folder, stream=io.StringIO(), **options)


def interrupted_at(stop: StopFlag, when: int):
    calls = []

    def advance(state: State) -> tuple[State, dict[str, jax.Array]]:
        calls.append(1)
        if len(calls) == when:
            stop.number = 15
        return chunk(state)

    return advance


def same(a: tuple, b: tuple) -> None:
    np.testing.assert_array_equal(a[0].position, b[0].position)
    for key in ("loss", "step"):
        np.testing.assert_array_equal(a[1][key], b[1][key])


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_metrics_are_stacked_and_written(tmp_path: Path) -> None:
    state, metrics = lab(tmp_path).loop("walk", start(), chunk, 4, show="loss")
    assert metrics["loss"].shape == (4, 2) and metrics["step"].shape == (4,)
    np.testing.assert_allclose(metrics["step"][-1], state.position[0])
    rows = lines(tmp_path)
    assert [row["chunk"] for row in rows] == [0, 1, 2, 3]
    assert rows[2]["loss"]["max"] == pytest.approx(metrics["loss"][2].max())
    assert rows[2]["step"] == {"mean": pytest.approx(metrics["step"][2])}


def test_stopping_and_resuming_changes_no_number(tmp_path: Path) -> None:
    straight = lab(tmp_path / "a").loop("walk", start(), chunk, 6)
    stop = StopFlag()
    with pytest.raises(Stopped):
        lab(tmp_path / "b", stop=stop).loop("walk", start(), interrupted_at(stop, 3), 6)
    assert len(lines(tmp_path / "b")) == 3
    calls = []

    def counted(state: State) -> tuple[State, dict[str, jax.Array]]:
        calls.append(1)
        return chunk(state)

    resumed = lab(tmp_path / "b").loop("walk", start(), counted, 6)
    assert len(calls) == 3
    same(straight, resumed)
    told = [{k: v for k, v in row.items() if k != "seconds"} for row in lines(tmp_path / "b")]
    again = [{k: v for k, v in row.items() if k != "seconds"} for row in lines(tmp_path / "a")]
    assert told == again


@pytest.mark.parametrize("n_members", [6, 5])
def test_an_ensemble_over_devices_resumes_on_as_many_with_the_same_bits(
    n_members: int, tmp_path: Path
) -> None:
    """Six members divide over three devices; five are copied to each, and padded inside."""
    problem = ToyProblem(ToySpec(n_features=4, n_hidden=2), 16)
    hyper = ToyHyper(jnp.full((n_members, 4), 0.3), jnp.ones((n_members, 4)))
    members = new_members(jax.random.key(0), 1e-2, hyper)
    plan = Plan(problem, OptimSpec(learning_rate=1e-2, steps=12), chunk=3, mesh=device_mesh(3))
    advance = ensemble.advance(plan, members)
    straight = lab(tmp_path / "a").loop("toys", ensemble.init(plan, members), advance, 4)
    stop, calls = StopFlag(), []

    def interrupted(state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        calls.append(len(state.params.W.devices()))
        stop.number = 15 if len(calls) == 2 else None
        return advance(state)

    with pytest.raises(Stopped):
        begun = lab(tmp_path / "b", stop=stop)
        begun.loop("toys", ensemble.init(plan, members), interrupted, 4)
    stop.number = None
    resumed = lab(tmp_path / "b").loop("toys", ensemble.init(plan, members), interrupted, 4)
    assert len(calls) == 4 and calls[1] == 3, "spread over devices"
    jax.tree.map(np.testing.assert_array_equal, resumed[0].params, straight[0].params)
    jax.tree.map(np.testing.assert_array_equal, resumed[1], straight[1])
    assert np.ptp(resumed[1]["loss"]) > 0


def test_a_crash_falls_back_to_the_last_checkpoint(tmp_path: Path) -> None:
    calls = []

    def crashing(state: State) -> tuple[State, dict[str, jax.Array]]:
        calls.append(1)
        if len(calls) == 5:
            raise RuntimeError("crash")
        return chunk(state)

    with pytest.raises(RuntimeError, match="crash"):
        lab(tmp_path / "b", checkpoint_seconds=0.0).loop("walk", start(), crashing, 6)
    with (tmp_path / "b" / "metrics.jsonl").open("a") as file:
        file.write('{"loop": "wal')  # a line cut short
    calls.clear()
    resumed = lab(tmp_path / "b").loop("walk", start(), crashing, 6)
    assert len(calls) == 2
    same(lab(tmp_path / "a").loop("walk", start(), chunk, 6), resumed)
    assert len(lines(tmp_path / "b")) == 6
    assert len(list((tmp_path / "b" / "loops" / "walk").glob("metrics-*"))) <= 2


def test_a_finished_loop_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circuitax.lab.loop.WORTH_KEEPING_SECONDS", 0.0)
    first = lab(tmp_path).loop("walk", start(), chunk, 3)

    def never(state: State) -> tuple[State, dict[str, jax.Array]]:
        raise AssertionError

    same(first, lab(tmp_path).loop("walk", start(), never, 3))


def test_members_that_diverged_do_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def advance(state: State) -> tuple[State, dict[str, jax.Array]]:
        return state, {"loss": jnp.array([1.0, jnp.nan, 3.0]), "lost": jnp.array(jnp.nan)}

    monkeypatch.setattr("circuitax.lab.progress.LINE_SECONDS", 0.0)
    stream = io.StringIO()
    Lab(tmp_path, stream=stream).loop("walk", start(), advance, 1, show="loss")
    row = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert row["loss"] == {"mean": 2.0, "min": 1.0, "max": 3.0, "finite": 2}
    assert row["lost"] == {"mean": None, "finite": 0}
    assert "loss 2" in stream.getvalue()


def test_a_run_without_living_members_ends(tmp_path: Path) -> None:
    def advance(state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        step, alive = state.step + 1, state.step < jnp.array([1, 3])
        return state._replace(step=jnp.where(alive, step, state.step), alive=alive), {}

    begin = TrainState({}, {}, jnp.zeros(2, jnp.int32), jnp.ones(2, bool))
    state, _ = lab(tmp_path / "a").loop("train", begin, advance, 3)
    assert state.alive.tolist() == [False, True], "one is enough to go on"
    message = "train: all 2 members diverged, the last after 3 updates: loss or gradient"
    with pytest.raises(Diverged, match=message):
        lab(tmp_path / "b").loop("train", begin, advance, 9)


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"show='los' must be one of the metrics \['loss', 'step'\]"
    ):
        lab(tmp_path / "a").loop("walk", start(), chunk, 2, show="los")
    with pytest.raises(ValueError, match="n_chunks=0 of loop 'walk' must be at least 1"):
        lab(tmp_path / "b").loop("walk", start(), chunk, 0)


# TensorStore may answer after Orbax has closed its event loop on the damaged file.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("which", ["state", "metrics", "both"])
def test_damaged_work_falls_back_and_changes_no_number(tmp_path: Path, which: str) -> None:
    straight = lab(tmp_path / "a").loop("walk", start(), chunk, 6)
    folder = tmp_path / "b" / "loops" / "walk"
    stop = StopFlag()
    with pytest.raises(Stopped):
        # Two checkpoints: one a chunk at most, since none may be older than no time at all.
        lab(tmp_path / "b", stop=stop, checkpoint_seconds=0.0).loop(
            "walk", start(), interrupted_at(stop, 3), 6
        )
    steps = sorted(int(path.name) for path in (folder / "state").iterdir())
    assert steps == [2, 3]
    for step in steps if which == "both" else steps[-1:]:
        if which == "metrics":
            damage(folder / f"metrics-{step}.safetensors")
        else:
            for path in (folder / "state" / str(step) / "state" / "d").iterdir():
                damage(path)
    stream = io.StringIO()
    calls = []

    def counted(state: State) -> tuple[State, dict[str, jax.Array]]:
        calls.append(1)
        return chunk(state)

    resumed = Lab(tmp_path / "b", stream=stream).loop("walk", start(), counted, 6)
    said = stream.getvalue().splitlines()
    assert said[0].startswith("loop walk: checkpoint 3 is left out: ")
    assert len(said) == (2 if which == "both" else 1)
    assert len(calls) == (6 if which == "both" else 4)
    same(resumed, straight)
    assert [row["chunk"] for row in lines(tmp_path / "b")] == list(range(6))


def stopped_at_3(folder: Path) -> Path:
    """A loop stopped with checkpoints 2 and 3; the folder of its checkpoints."""
    stop = StopFlag()
    with pytest.raises(Stopped):
        lab(folder, stop=stop, checkpoint_seconds=0.0).loop(
            "walk", start(), interrupted_at(stop, 3), 6
        )
    return folder / "loops" / "walk" / "state"


def no_metrics(folder: Path) -> None:
    (folder / "loops" / "walk" / "metrics-3.safetensors").unlink()


def fewer_metrics(folder: Path) -> None:
    kept = folder / "loops" / "walk"
    shutil.copy(kept / "metrics-2.safetensors", kept / "metrics-3.safetensors")


def stray_folder(folder: Path) -> None:
    (folder / "loops" / "walk" / "state" / "999999").mkdir()


def stray_file(folder: Path) -> None:
    (folder / "loops" / "walk" / "state" / "5").write_text("no checkpoint")


def copied(folder: Path) -> None:
    """A whole checkpoint, with its metrics, of more chunks than there are."""
    kept = folder / "loops" / "walk"
    shutil.copytree(kept / "state" / "3", kept / "state" / "7")
    shutil.copy(kept / "metrics-3.safetensors", kept / "metrics-7.safetensors")


def stray_metrics(folder: Path) -> None:
    (folder / "loops" / "walk" / "metrics-old.safetensors").write_text("no metrics")


def no_checkpoints(folder: Path) -> None:
    shutil.rmtree(folder / "loops" / "walk")
    (folder / "loops" / "walk").write_text("no folder")


def invalid_byte(folder: Path) -> None:
    text = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_bytes(text[0] + b"\xff" + b"".join(text[1:]))


def flipped_key(folder: Path) -> None:
    text = (folder / "metrics.jsonl").read_bytes()
    (folder / "metrics.jsonl").write_bytes(text.replace(b'"loop"', b'"moop"', 1))


@pytest.mark.parametrize(
    ("spoil", "said", "computed", "kept"),
    [
        (no_metrics, ["loop walk: checkpoint 3 is left out: arrays 'metrics-3' were not"], 4, 6),
        (fewer_metrics, ["loop walk: checkpoint 3 is left out: its metric 'loss' has not 3"], 4, 6),
        (stray_folder, ["loop walk: 999999 is none of its 6 checkpoints"], 3, 6),
        (stray_file, ["loop walk: 5 is none of its 6 checkpoints"], 3, 6),
        (copied, ["loop walk: 7 is none of its 6 checkpoints"], 3, 6),
        (stray_metrics, [], 3, 6),
        (no_checkpoints, ["loop walk: walk is no folder"], 6, 6),
        (invalid_byte, ["loop walk: lines of metrics.jsonl cannot be read"], 3, 5),
        (flipped_key, ["loop walk: lines of metrics.jsonl cannot be read"], 3, 5),
    ],
)
def test_what_cannot_be_read_is_set_aside(
    tmp_path: Path,
    spoil: Callable[[Path], None],
    said: list[str],
    computed: int,
    kept: int,
) -> None:
    straight = lab(tmp_path / "a").loop("walk", start(), chunk, 6)
    work = tmp_path / "b"
    stopped_at_3(work)
    spoil(work)
    stream, calls = io.StringIO(), []

    def counted(state: State) -> tuple[State, dict[str, jax.Array]]:
        calls.append(1)
        return chunk(state)

    resumed = Lab(work, stream=stream, checkpoint_seconds=0.0).loop("walk", start(), counted, 6)
    told = stream.getvalue().splitlines()
    assert len(calls) == computed
    assert [line.startswith(start) for line, start in zip(told, said, strict=True)] == [
        True for _ in said
    ]
    assert all(line.endswith("(set aside in unreadable/)") for line in told)
    assert len(list((work / "unreadable").glob("*"))) == len(said)
    same(resumed, straight)
    assert len(lines(work)) == kept
    again = lab(work).loop("walk", start(), counted, 6)
    assert len(calls) == computed, "the next session finds whole work"
    same(again, straight)


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
