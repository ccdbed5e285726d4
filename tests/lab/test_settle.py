"""Claims are settled from the saved record; rewording one computes nothing."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from circuitax.config.catalogue import VARIABLE, ExperimentEntry, discover
from circuitax.lab.runs import DERIVED, DamagedRun, scalars, verdicts
from circuitax.lab.settle import settle_run
from circuitax.lab.source import numbers_hash
from circuitax.records.manifest import write_manifest
from circuitax.records.record import Record

HOUSE = Path(__file__).parent.parent / "house"


@pytest.fixture
def copy(tmp_path: Path) -> ExperimentEntry:
    """The walk in a folder of the test's own, under another name, since it is edited."""
    name = re.sub(r"\W", "_", f"walk_of_{tmp_path.name}")
    folder = tmp_path / name
    shutil.copytree(HOUSE / "house_walk", folder, ignore=shutil.ignore_patterns("__pycache__"))
    return ExperimentEntry(name, name, folder, tmp_path / "conf", "", (), 1.0, 1.0, None)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    end = np.array([[1.0, -2.0, 0.5], [0.1, 0.2, 0.3]])
    Record(xr.Dataset({"end": (("rate", "member"), end)}), {"members": 3}).save(tmp_path / "run")
    write_manifest(tmp_path / "run")
    return tmp_path / "run"


def loaded_anew(entry: ExperimentEntry) -> ExperimentEntry:
    for name in [name for name in sys.modules if name.split(".")[0] == entry.package]:
        del sys.modules[name]
    return entry


def edit(entry: ExperimentEntry, part: str, old: str, new: str) -> ExperimentEntry:
    path = entry.file(part)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
    return loaded_anew(entry)


def test_a_record_is_settled_and_kept(run: Path, copy: ExperimentEntry) -> None:
    found = settle_run(run, copy)
    assert [(v.claim.id, v.verdict) for v in found] == [
        ("walk-starts", "holds"),
        ("walk-spreads", "holds"),
    ]
    assert verdicts(run) == found
    squares = np.array([1.0, 4.0, 0.25, 0.01, 0.04, 0.09])
    assert scalars(run)["spread"].value == pytest.approx(squares.mean())
    assert json.loads((run / "scalars.json").read_text())["unmet"] == {}


def test_it_is_settled_once(
    run: Path, copy: ExperimentEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = settle_run(run, copy)
    monkeypatch.setattr(copy.load("measures"), "measure", lambda record: pytest.fail("again"))
    assert settle_run(run, copy) == first
    (run / "claims.json").write_text("[]")
    with pytest.raises(pytest.fail.Exception):
        settle_run(run, copy)


def test_a_reworded_claim_is_settled_again_and_computes_nothing(
    run: Path, copy: ExperimentEntry
) -> None:
    settle_run(run, copy)
    before = numbers_hash([copy.path])
    (claim, _) = settle_run(run, edit(copy, "claims", "It starts at 0", "It begins at 0"))
    assert claim.claim.statement == "It begins at 0"
    assert verdicts(run)[0].claim.statement == "It begins at 0"
    (_, spread) = settle_run(run, edit(copy, "claims", "at_least(-99.0", "at_least(99.0"))
    assert spread.verdict == "fails"
    (start, _) = settle_run(run, edit(copy, "measures", "exact(0.0)", "exact(1.0)"))
    assert start.verdict == "fails"
    assert numbers_hash([copy.path]) == before
    edit(copy, "experiment", '"""A random walk', '"""Another docstring: a random walk')
    assert numbers_hash([copy.path]) == before
    edit(copy, "experiment", "* spec.step.size", "* spec.step.size * 2")
    assert numbers_hash([copy.path]) != before


def test_the_null_of_a_claim_is_drawn_from_the_record(run: Path, copy: ExperimentEntry) -> None:
    null = 'walk",\n        null=Null("permuted", "each end is a draw"),'
    edit(copy, "claims", 'walk",', null)
    imported = "from circuitax.records.nulls import Null\n"
    edit(copy, "claims", "\nCLAIMS = (", f"{imported}\nCLAIMS = (")
    with pytest.raises(ValueError, match=r"'walk-spreads' needs draws of its null"):
        settle_run(run, copy)
    drawn = "\n\ndef nulls(record):\n    ends = record.data.end.values.ravel()\n"
    drawn += '    return {"permuted": {"spread": ends}}'
    last = "} if few else {}\n    )"
    edit(copy, "measures", last, last + drawn)
    start, spread = settle_run(run, copy)
    assert (start.verdict, start.null) == ("holds", None)
    assert spread.verdict == "would hold anyway" and spread.null is not None
    assert (spread.null.n, spread.null.holding, spread.null.median) == (6, 6, 0.25)
    assert verdicts(run)[1] == spread
    edit(copy, "measures", drawn, drawn.replace("record.data.end", "record.data.beginning"))
    with pytest.raises(ValueError, match=r"nulls\(\) of '.*' failed on the record of run 'run'"):
        settle_run(run, copy)


def test_a_docstring_settles_nothing_again(
    run: Path, copy: ExperimentEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_run(run, copy)
    stamp = (run / "claims.json").stat().st_mtime_ns
    settle_run(run, edit(copy, "claims", '"""What is expected', '"""What one expects'))
    assert (run / "claims.json").stat().st_mtime_ns == stamp


def test_other_data_are_settled_again(run: Path, copy: ExperimentEntry) -> None:
    settle_run(run, copy)
    record = Record.load(run)
    record.notes["members"] = 2
    record.save(run)
    kept = (run / "claims.json").read_bytes()
    with pytest.raises(DamagedRun, match=r"data\.nc is damaged"):
        settle_run(run, copy)
    assert (run / "claims.json").read_bytes() == kept
    write_manifest(run, left_out=DERIVED)
    assert [v.verdict for v in settle_run(run, copy)] == ["holds", "absent"]


def test_an_experiment_may_claim_nothing(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(HOUSE))
    assert settle_run(run, discover()["house_reader"]) == []
    assert verdicts(run) == [] and scalars(run) == {}


def test_settling_needs_no_jax(run: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from circuitax.lab.settle import settle_run\n"
        "from circuitax.config.catalogue import discover\n"
        "settle_run(Path(sys.argv[1]), discover()['house_walk'])\n"
        "sys.exit('jax' in sys.modules or 'flax' in sys.modules)"
    )
    environment = {**os.environ, VARIABLE: str(HOUSE)}
    subprocess.run([sys.executable, "-c", code, str(run)], env=environment, check=True)
