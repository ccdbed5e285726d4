"""Metrics of a run as event files of TensorBoard, read back number by number."""

import json
import os
import struct
import sys
from pathlib import Path

import pytest

from circuitax.commands import events
from circuitax.records.manifest import write_manifest

LINES = [
    {"loop": "train", "chunk": 0, "seconds": 1.5, "loss": {"mean": 2.0, "min": 1.0, "max": 3.5}},
    {"loop": "fit", "chunk": 0, "seconds": 0.25, "gap": {"mean": None, "finite": 0}},
    {"loop": "train", "chunk": 1, "seconds": 0.5, "loss": {"mean": 0.75, "min": 0.5, "max": 1.0}},
    {"loop": "fit", "chunk": 1, "seconds": 0.25, "gap": {"mean": -4.0}},
]
WRITTEN = [
    ("train/loss", 0, 2.0, 1.5),
    ("train/loss/min", 0, 1.0, 1.5),
    ("train/loss/max", 0, 3.5, 1.5),
    ("train/loss", 1, 0.75, 2.25),
    ("train/loss/min", 1, 0.5, 2.25),
    ("train/loss/max", 1, 1.0, 2.25),
    ("fit/gap", 1, -4.0, 2.5),
]


def a_run(folder: Path) -> Path:
    """A finished run whose metrics end with half a line."""
    folder.mkdir(parents=True)
    text = "".join(f"{json.dumps(line)}\n" for line in LINES)
    (folder / events.METRICS).write_text(text + '{"loop": "fit", "chu')
    os.utime(folder / events.METRICS, (1000.0, 1000.0))
    (folder / "provenance.json").write_text("{}")
    write_manifest(folder)
    return folder


def test_the_numbers_of_each_chunk_are_named_by_loop_and_metric(tmp_path: Path) -> None:
    found = list(events.scalars_of(a_run(tmp_path / "run")))
    assert [tuple(row) for row in found] == WRITTEN


def read_back(folder: Path) -> list[tuple[str, int, float, float]]:
    """The scalars of the only event file of a folder, whose format is that of TFRecord."""
    from tensorboardX.proto.event_pb2 import Event

    (path,) = folder.glob("events.out.tfevents.*")
    data, found = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event = Event.FromString(data[12 : 12 + length])
        found += [(v.tag, event.step, v.simple_value, event.wall_time) for v in event.summary.value]
        data = data[16 + length :]
    return found


def test_event_files_hold_them(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorboardX", reason="the extra tensorboard is not installed")
    a_run(results / "toy" / "abc")
    a_run(results / ".work" / "unfinished")
    for _ in "12":  # a second time takes the place of the first
        assert events.main(["run=toy/abc"]) == 0
    assert events.main([f"run={results / '.work' / 'unfinished'}"]) == 0
    written = results / "events"
    folders = [written / "toy" / "abc", written / "work" / "unfinished"]
    assert capsys.readouterr().out.split() == [str(folders[0]), *map(str, folders)]
    for folder in folders:
        found = read_back(folder)
        assert [row[:3] for row in found] == [row[:3] for row in WRITTEN]
        assert [row[3] for row in found] == [1000.0 - 2.5 + row[3] for row in WRITTEN]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("run=toy/none", "RUN=toy/none must be the folder of a finished run"),
        ("run=toy/quiet", "toy/quiet must have trained and kept metrics.jsonl"),
        ("into=here", "run is missing"),
        ("runs=toy", "runs=toy is no option"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    typed: str, said: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = results / "toy" / "quiet"
    quiet.mkdir(parents=True)
    (quiet / "provenance.json").write_text("{}")
    write_manifest(quiet)
    assert events.main([typed]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and said in err and err.count("\n") == 1


def test_a_missing_package_is_one_line(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(results / "toy" / "abc")
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert events.main(["run=toy/abc"]) == 2
    err = capsys.readouterr().err
    assert "tensorboardX must be installed" in err and err.count("\n") == 1
