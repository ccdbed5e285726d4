"""What a person may delete while no command is running: it costs time, and no number moves."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from circuitax.config.catalogue import ExperimentEntry
from circuitax.config.planned_runs import plan
from circuitax.data.text import TextSpec, open_text
from circuitax.lab.compilation import keep_compiled_code
from circuitax.lab.conduct import conduct
from circuitax.lab.runs import run_folder, work_folder
from circuitax.lab.stop import StopFlag, Stopped
from circuitax.records.record import Record

KEPT = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


def test_what_may_be_deleted_costs_time_alone(
    entries: dict[str, ExperimentEntry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def numbers(name: str, stop: StopFlag | None = None) -> dict[str, np.ndarray]:
        cell = plan([f"experiment={name}", "scale=tiny"], entries)[1][0]
        folder = conduct(cell, command="typed", stop=stop or StopFlag(), say=said.append).folder
        return {str(key): data.values for key, data in Record.load(folder).data.items()}

    said: list[str] = []
    walk, reader = (
        plan([f"experiment={name}", "scale=tiny"], entries)[1][0]
        for name in ("house_walk", "house_reader")
    )
    run = run_folder("house_walk", walk.id)
    before = {name: getattr(jax.config, name) for name in KEPT}
    try:
        compilation_cache.reset_cache()
        jax.clear_caches()
        code = keep_compiled_code(tmp_path / ".cache")
        first = {name: numbers(name) for name in ("house_walk", "house_reader")}
        assert any(code.iterdir())

        # A run: when it is asked for, and when a reader of it is.
        shutil.rmtree(run)
        np.testing.assert_equal(numbers("house_walk"), first["house_walk"])
        shutil.rmtree(run)
        shutil.rmtree(run_folder("house_reader", reader.id))
        np.testing.assert_equal(numbers("house_reader"), first["house_reader"])
        assert run.is_dir()

        # Compiled code, of all experiments.
        shutil.rmtree(tmp_path / ".cache")
        shutil.rmtree(run)
        compilation_cache.reset_cache()
        jax.clear_caches()
        keep_compiled_code(tmp_path / ".cache")
        np.testing.assert_equal(numbers("house_walk"), first["house_walk"])
        assert any(code.iterdir())
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()

    # The work of a run that was stopped in its middle.
    shutil.rmtree(run)
    stop = StopFlag()
    steps = iter(range(2))

    def sleep(seconds: float) -> None:
        stop.number = None if next(steps, None) is not None else 15

    with monkeypatch.context() as patched, pytest.raises(Stopped):
        patched.setattr(entries["house_walk"].load().time, "sleep", sleep)
        numbers("house_walk", stop)
    assert (work_folder() / walk.id).is_dir() and not run.exists()
    shutil.rmtree(work_folder())
    np.testing.assert_equal(numbers("house_walk"), first["house_walk"])
    assert "resumed" not in said[-1]


def test_texts_are_tokenised_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCUITAX_CACHE", str(tmp_path / "cache"))
    novel = tmp_path / "novel"
    novel.mkdir()
    for i in range(6):
        (novel / f"{i}.txt").write_text(f"chapter {i}: it was the best of times, the worst\n" * 4)
    spec = TextSpec(d_vocab=270, path=str(novel))
    first = open_text(spec)
    tokens, digest = np.array(first.tokens.train), first.tokenizer.to_str()
    shutil.rmtree(tmp_path / "cache")
    again = open_text(spec)
    np.testing.assert_array_equal(again.tokens.train, tokens)
    assert again.tokenizer.to_str() == digest
    assert list((tmp_path / "cache").glob("tokens/*"))
