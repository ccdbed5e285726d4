"""How many programs an experiment compiles, or reads from the cache on disk, on two devices."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from circuitax.lab.cheap_code import cheap_flags
from circuitax.lab.runs import VARIABLE

PROBE = """
import atexit, json, sys
import jax
jax.config.update("jax_num_cpu_devices", 2)
names = []

def listen(event, duration, **about):
    if event == "/jax/core/compile/backend_compile_duration":
        names.append(str(about.get("fun_name", "?")))

jax.monitoring.register_event_duration_secs_listener(listen)
atexit.register(lambda: print(json.dumps(names)))
from circuitax.commands.run import main
sys.argv = ["experiments.run", "experiment=toy_sae", "scale=tiny"]
main()
"""
# Of the large target, and of all methods on small, large, orthogonal and narrow targets.
SHAPES = 5


def test_five_trainings_compile_less_than_forty_programs(tmp_path: Path) -> None:
    flags = {k: v for k, v in cheap_flags().items() if "device_count" not in k}
    given = {"XLA_FLAGS": " ".join(f"--{k}={v}" for k, v in flags.items()), VARIABLE: str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=os.environ | given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = Counter(json.loads(done.stdout.splitlines()[-1]))
    assert SHAPES - 1 <= found["jit(_advance)"] <= SHAPES
    assert not {name for name in found if "slice" in name}, "arrays went between devices"
    # Training, first weights and scores of each shape, and twenty that all share.
    assert found.total() < 40, found
