"""Compiled code: kept on disk for each kind of processor, and released with its memory."""

import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from circuitax.lab.compilation import compile_seconds, covered, keep_compiled_code

OPTIONS = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


def test_a_quick_compilation_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jax.experimental.compilation_cache import compilation_cache

    before = {name: getattr(jax.config, name) for name in OPTIONS}
    try:
        compilation_cache.reset_cache()
        folder = keep_compiled_code(tmp_path)
        assert folder.parent == tmp_path / "xla"
        jax.jit(lambda x: jnp.sin(x) + 41.0)(jnp.ones(3)).block_until_ready()
        assert any(folder.iterdir())
        monkeypatch.setattr(Path, "exists", lambda path: False)
        assert keep_compiled_code(tmp_path) != folder  # other features, other folder
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


def test_spans_count_once() -> None:
    assert covered([]) == 0
    assert covered([(1.0, 2.0), (0.0, 4.0), (3.0, 5.0), (7.0, 7.5)]) == 5.5


def test_seconds_of_compiling_are_those_of_the_block() -> None:
    def programs(shift: float) -> None:
        inner = jax.jit(lambda x: jnp.cos(x) * shift)
        jax.jit(lambda x: inner(x) + inner(2 * x))(jnp.ones(3)).block_until_ready()

    began = time.time()
    with compile_seconds() as seconds, compile_seconds("backend") as in_xla:
        assert seconds() == 0
        programs(17.0)
        first = seconds()
        programs(18.0)
        second = seconds()
    assert 0 < first < second < time.time() - began
    assert 0 < in_xla() < second
    programs(19.0)
    assert seconds() == second


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux keeps what was freed")
def test_memory_goes_back_to_the_system() -> None:
    """In a process of its own: what this one freed before would be used again."""
    program = """
from circuitax.lab.compilation import footprint, release_compiled_code
before = footprint().megabytes
pieces = [bytearray(50_000) for _ in range(2000)]
pieces = pieces[-1:]  # at the end of the heap, so that what was freed before it stays
kept = footprint().megabytes
release_compiled_code()
print(kept - before, footprint().megabytes - before, len(pieces))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    kept, left, pieces = map(float, done.stdout.split())
    assert kept > 80 > 40 > left
    assert pieces == 1
