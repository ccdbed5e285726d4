"""Every experiment runs end to end at tiny scale: record, claims and figures, from one command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from circuitax.config.catalogue import discover, upstream_order
from circuitax.records.record import Record

ENTRIES = discover()
# Upstream experiments come first, so that their runs are reused by those that read them.
ORDER = list(dict.fromkeys(n for name in sorted(ENTRIES) for n in upstream_order(name, ENTRIES)))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDER)
def test_experiment_runs_at_tiny_scale(name: str, results: Path) -> None:
    command = [sys.executable, "-m", "experiments.run", f"experiment={name}", "scale=tiny"]
    environment = os.environ | {"CIRCUITAX_RESULTS": str(results)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (run,) = [folder for folder in (results / name).iterdir() if (folder / "claims.json").exists()]
    record = Record.load(run)
    assert record.data.data_vars
    verdicts = json.loads((run / "claims.json").read_text())
    assert {v["verdict"] for v in verdicts} <= {"holds", "fails", "out of reach"}
    assert all(v["verdict"] != "fails" for v in verdicts if v["kind"] == "identity"), verdicts
    pictures = sorted((run / "figures").glob("*.png"))
    assert pictures and all(p.stat().st_size > 5_000 for p in pictures)
    assert all(p.with_suffix(".pdf").exists() for p in pictures)


@pytest.mark.slow
def test_a_run_of_text_models_continues_a_text(results: Path) -> None:
    environment = os.environ | {"CIRCUITAX_RESULTS": str(results)}
    started = [sys.executable, "-m"]
    commands = (
        [*started, "experiments.run", "experiment=text_models", "scale=tiny"],  # reused if it ran
        [*started, "experiments.generate", "text_models", "def", "--model", "layers-2", "--greedy"],
    )
    for command in commands:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("def") and len(done.stdout) > 4
    assert "layers-2 of text_models" in done.stderr
