"""Viewers of finished runs are made in a process of their own, kept, and missed with a reason."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from circuitax.config.catalogue import VARIABLE, ExperimentEntry, discover
from circuitax.display.viewers import Viewer
from circuitax.lab import report_viewers
from circuitax.records.manifest import write_manifest
from circuitax.records.record import Record

DECLARED = '''"""Seen."""

from circuitax.config.catalogue import Experiment

EXPERIMENT = Experiment()
'''
EXPERIMENT = '"""Seen."""\nclass Spec: ...\ndef run(spec, key, lab): ...\n'
VIEW = '''"""A viewer."""
import os
from circuitax.display.viewers import Viewer
from circuitax.records.record import Record

def view(run):
    """What the record says, and in which process."""
    total = float(Record.load(run).data.total)
    if total < 0:
        raise ValueError("total must not be negative")
    return [Viewer("directions", "A title", "text", {"total": total, "process": os.getpid()})]
'''


@pytest.fixture
def seen(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExperimentEntry:
    folder = tmp_path / "own" / "seen"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(DECLARED)
    (folder / "experiment.py").write_text(EXPERIMENT)
    (folder / "viewer.py").write_text(VIEW)
    monkeypatch.setenv(VARIABLE, str(folder.parent))
    return discover()["seen"]


def finished(folder: Path, total: float) -> Path:
    Record(xr.Dataset({"total": np.float64(total)}), {}).save(folder)
    write_manifest(folder)
    return folder


def test_viewers_are_made_once_by_another_process(
    seen: ExperimentEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished(tmp_path / "run", 2.5)
    entries = {"seen": seen}
    made = report_viewers.views({"seen": run}, entries)
    ((viewer,),) = made.shown.values()
    assert isinstance(viewer, Viewer) and viewer.title == "A title" and not made.missing
    assert viewer.facts["total"] == 2.5
    again = report_viewers.views({"seen": run}, entries)
    assert again == made, "the same process made both"
    finished(tmp_path / "run", -1.0)
    refused = report_viewers.views({"seen": run}, entries)
    assert refused.missing == {"seen": "ValueError: total must not be negative"}
    assert not refused.shown
    assert report_viewers.views({}, entries).missing == {"seen": "not run yet"}
    kept = (tmp_path / "results" / ".work" / report_viewers.FOLDER).iterdir()
    newest = max(kept, key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(b'{"viewers": [{}], "reason": "\xff')
    assert report_viewers.views({"seen": run}, entries) == refused, "made again where it is damaged"
    whole = (seen.folder / "viewer.py").read_text()
    (seen.folder / "viewer.py").write_text("import os\nos.abort()\n")
    ended = report_viewers.views({"seen": run}, entries).missing
    assert ended == {"seen": "its process ended with -6"}
    (seen.folder / "viewer.py").write_text(whole)

    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("a kept viewer is read")

    monkeypatch.setattr(report_viewers.subprocess, "run", never)
    assert report_viewers.views({"seen": run}, entries) == refused, "a reason is kept as well"
    finished(tmp_path / "run", 2.5)
    assert report_viewers.views({"seen": run}, entries) == made
