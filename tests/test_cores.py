"""Cores of a CPU as devices; compiled code is kept for its processor."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from circuitax.cores import keep_compiled_code, n_cores, processor
from circuitax.lab.execute import device_name

PROBE = """
import sys
from pathlib import Path
from circuitax.cores import one_device_a_core
from circuitax.lab.lab import Lab
import os
os.sched_getaffinity = lambda process: {0, 1, 2}
one_device_a_core()
mesh = Lab(Path(sys.argv[1])).mesh
patient = "call_terminate_timeout_seconds=86400" in os.environ.get("XLA_FLAGS", "")
import jax
ahead = jax.config.values["jax_cpu_enable_async_dispatch"]
shape = None if mesh is None else dict(mesh.shape)
print(shape, os.environ.get("JAX_NUM_CPU_DEVICES"), patient, ahead)
"""


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ({}, "{'member': 3, 'data': 1} 3 True False"),
        (
            {"XLA_FLAGS": "--xla_cpu_enable_fast_math=false"},
            "{'member': 3, 'data': 1} 3 True False",
        ),
        ({"JAX_NUM_CPU_DEVICES": "1"}, "None 1 False False"),
        # Devices that are only simulated, as in these tests, are not for training.
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}, "None None False False"),
    ],
)
def test_a_run_sees_each_core_as_a_device(
    tmp_path: Path, given: dict[str, str], printed: str
) -> None:
    kept = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(tmp_path)],
        env={**kept, **given, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == printed


def test_a_system_that_does_not_say_which_cores_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS: the runs computed, and ended with an error when they wrote their device."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3}, raising=False)
    assert n_cores() == 2 and device_name().endswith(", 2 cores")
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert n_cores() == 5 and device_name().endswith(", 5 cores")


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
