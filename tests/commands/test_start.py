"""The start of ``experiments.run``: what has not been imported when the first steps are done."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from circuitax.config import catalogue
from circuitax.lab import runs

HOUSE = Path(__file__).parent.parent / "house"
# What a run needs only once its steps are done: records, intervals, pictures, checkpoints.
LATER = {"PIL", "h5netcdf", "matplotlib", "orbax", "pandas", "scipy", "tensorstore"}
# What the entry does, but that it ends where a loop opens its file for the first line of metrics.
FIRST_STEPS = """
import gc, os, sys
from circuitax.commands.start import start

def end(event, arguments):
    if event == "open" and str(arguments[0]).endswith("metrics.jsonl") and arguments[1] == "a":
        print(gc.isenabled(), gc.get_freeze_count() > 0, *sys.modules, flush=True)
        os._exit(0)

sys.addaudithook(end)
sys.exit(start())
"""
EVERY_EXPERIMENT = """
import sys
from circuitax.commands.first_steps import defer_work
defer_work()
from circuitax.config.catalogue import discover
for entry in discover().values():
    entry.load()
    print(entry.name, *sys.modules)
"""


def said(code: str, *arguments: str, **environment: str) -> list[list[str]]:
    """What a process of its own prints, as the words of each line."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", ["house_walk", "toy_intro", "text_models"])
def test_the_first_steps_wait_for_nothing_that_comes_later(tmp_path: Path, name: str) -> None:
    places = {runs.VARIABLE: str(tmp_path), catalogue.VARIABLE: str(HOUSE)}
    ((collects, skips, *modules),) = said(FIRST_STEPS, f"experiment={name}", "scale=tiny", **places)
    assert {"jax", "xarray"} <= set(modules)  # the second one in name
    assert LATER & set(modules) == set()
    assert (collects, skips) == ("True", "True")


def test_no_experiment_imports_what_comes_later() -> None:
    lines = said(EVERY_EXPERIMENT)
    assert len(lines) > 40
    late = LATER - {"scipy"}  # some compute with it
    assert {name: late & set(modules) for name, *modules in lines if late & set(modules)} == {}
