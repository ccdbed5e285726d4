"""Compiled code is kept for its own processor, and its seconds count once."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from circuitax.lab.compilation import compile_seconds, keep_compiled_code, processor


def test_compiling_takes_seconds_and_running_does_not() -> None:
    function = jax.jit(lambda x: jnp.sort(jnp.sin(x) + 0.1234567))
    x = jnp.linspace(0.0, 1.0, 7)
    with compile_seconds() as first:
        function(x)
    with compile_seconds() as second:
        function(x)
    assert first() > 0 == second()


def test_code_is_kept_below_the_kind_of_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, object] = {}
    monkeypatch.setattr(jax.config, "update", kept.__setitem__)
    folder = keep_compiled_code(tmp_path)
    assert folder == tmp_path / "xla" / processor() and folder.is_dir()
    assert kept["jax_compilation_cache_dir"] == str(folder)
    (tmp_path / "file").write_text("")
    keep_compiled_code(tmp_path / "file")  # a place that takes no folder ends nothing
