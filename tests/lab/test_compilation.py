"""Compiled code: kept on disk for each kind of processor, and released with its memory."""

import errno
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

from circuitax.commands import job
from circuitax.lab import compilation
from circuitax.lab.compilation import (
    compile_seconds,
    covered,
    footprint,
    keep_compiled_code,
    multiply_in_float32,
    processor,
)

OPTIONS = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


def test_a_quick_compilation_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

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


@pytest.mark.parametrize("given", [None, "tensorfloat32"])
def test_products_keep_all_bits_unless_someone_asks_for_less(given: str | None) -> None:
    before = jax.config.values["jax_default_matmul_precision"]
    try:
        jax.config.update("jax_default_matmul_precision", given)
        multiply_in_float32()
        text = jax.jit(lambda x: x @ x).lower(jnp.eye(3) + 1).as_text()
    finally:
        jax.config.update("jax_default_matmul_precision", before)
    assert ("precision = [HIGHEST, HIGHEST]" in text) == (given is None)


def test_every_command_that_compiles_multiplies_in_float32() -> None:
    commands = [path.read_text() for path in Path(job.__file__).parent.glob("*.py")]
    compiling = [text for text in commands if "keep_compiled_code(" in text]
    assert len(compiling) == 4
    assert all("multiply_in_float32()" in text for text in compiling)


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


def test_a_nearly_full_disk_is_read_and_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {name: getattr(jax.config, name) for name in OPTIONS}
    usage = shutil.disk_usage(tmp_path)
    try:
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10_000_000))
        folder = keep_compiled_code(tmp_path)
        jax.jit(lambda x: jnp.sin(x) + 43.0)(jnp.ones(3)).block_until_ready()
        assert not any(folder.iterdir())
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


@pytest.mark.filterwarnings("error")
def test_a_disk_that_fills_up_is_no_warning_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    before = {name: getattr(jax.config, name) for name in OPTIONS}
    try:
        keep_compiled_code(tmp_path)
        monkeypatch.setattr(Path, "write_bytes", full)
        jax.jit(lambda x: jnp.sin(x) + 44.0)(jnp.ones(3)).block_until_ready()
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


def test_a_system_without_accounts_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS has no /proc: the most that was ever in use counts, and the processor's plain name."""
    here = footprint()
    monkeypatch.setattr(compilation, "_PROCESS", tmp_path / "nowhere")
    there = footprint()
    assert there.maps == 0 and there.megabytes >= 0.9 * here.megabytes > 10
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda p: p != Path("/proc/cpuinfo") and exists(p))
    assert processor().startswith(f"{compilation.platform.machine()}-")
