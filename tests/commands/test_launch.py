"""Processes start in order, as many as may, each behind those that it needs."""

import os
import signal
import sys
from pathlib import Path

import pytest

from circuitax.commands.launch import as_they_end, in_order, submitted
from circuitax.config.catalogue import discover
from circuitax.config.plan import launcher_settings
from circuitax.lab.loop import StopFlag


def note(folder: Path, name: str, then: str = "") -> list[str]:
    code = (
        "import os, sys, time, pathlib\n"
        f"log = pathlib.Path({str(folder / 'log')!r})\n"
        "def say(text):\n"
        "    with log.open('a') as file: file.write(text + '\\n')\n"
        f"say('{name} begins'); time.sleep(0.15); {then or 'pass'}\nsay('{name} ends')"
    )
    return [sys.executable, "-c", code]


def test_order_and_what_is_alone(tmp_path: Path) -> None:
    after = {"a": (), "b": ("a",), "c": (), "time": ()}
    ended = list(in_order(after, lambda name: note(tmp_path, name), 2, StopFlag(), alone=["time"]))
    assert {item.name: item.status for item in ended} == dict.fromkeys(after, 0)
    log = (tmp_path / "log").read_text().splitlines()
    assert log.index("a ends") < log.index("b begins")
    assert log.index("c begins") < log.index("a ends")
    assert log.index("time ends") == log.index("time begins") + 1


def test_what_needs_a_failed_one_starts_all_the_same_and_a_log_keeps_its_words(
    tmp_path: Path,
) -> None:
    def command(name: str) -> list[str]:
        return note(tmp_path, name, "sys.exit('too bad')" if name == "a" else "")

    ended = list(in_order({"a": (), "b": ("a",)}, command, 1, StopFlag(), logs=tmp_path / "logs"))
    assert [(item.name, item.status) for item in ended] == [("a", 1), ("b", 0)]
    assert (tmp_path / "logs" / "a.txt").read_text().strip() == "too bad"


def test_a_signal_is_passed_on_and_nothing_else_starts(tmp_path: Path) -> None:
    def command(name: str) -> list[str]:
        return note(tmp_path, name, f"os.kill({os.getpid()}, {signal.SIGINT}); time.sleep(30)")

    with StopFlag() as stop:
        ended = list(in_order({"a": (), "b": ()}, command, 1, stop))
    assert [(item.name, item.status) for item in ended] == [("a", -signal.SIGTERM)]
    assert stop.number == signal.SIGINT


def test_a_circle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        list(in_order({"a": ("b",), "b": ("a",)}, lambda name: [], 1, StopFlag()))


SBATCH = """#!/bin/sh
n=$(ls *.sbatch 2>/dev/null | wc -l)
cp "$1" $n.sbatch
echo Submitted batch job $n
"""
SACCT = r"""#!/bin/sh
printf 'JobID|State\n0|COMPLETED\n1|COMPLETED\n2|OUT_OF_MEMORY\n'
"""


def test_on_slurm_a_reader_stands_behind_what_it_reads_and_a_lost_job_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = pytest.importorskip("submitit.core")
    for name, text in (("sbatch", SBATCH), ("sacct", SACCT), ("srun", "")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(core.core.Job, "_results_timeout_s", 0)
    settings = launcher_settings("slurm_cpu", "toy_intro", discover())
    after, logs = {"a": (), "b": ("a", "finished before"), "c": ()}, tmp_path / "logs"
    jobs = submitted(after, lambda name: note(tmp_path, name), settings, ["b"], logs)
    sent = [(tmp_path / f"{n}.sbatch").read_text().splitlines() for n in range(3)]
    found = [[line for line in lines if "depend" in line or "exclu" in line] for lines in sent]
    assert found == [[], ["#SBATCH --dependency=afterany:0", "#SBATCH --exclusive"], []]
    assert all({"#SBATCH --mem=8GB", "#SBATCH --requeue"} < set(lines) for lines in sent)

    result = jobs["a"].submission().result()
    core.utils.cloudpickle_dump(("success", result), jobs["a"].paths.result_pickle)
    trace = "Traceback\nNo: timed-out too many times\n"
    core.utils.cloudpickle_dump(("error", trace), jobs["b"].paths.result_pickle)
    jobs["c"].paths.stderr.write_text("srun: error: Out Of Memory\n")
    ended = {item.name: item.status for item in as_they_end(jobs, logs, StopFlag())}
    assert ended == {"a": 0, "b": 1, "c": 1}
    assert (tmp_path / "log").read_text() == "a begins\na ends\n"
    said = [(logs / f"{name}.txt").read_text().strip() for name in after]
    assert said[1] == "job 1 (COMPLETED): No: timed-out too many times"
    assert said[2] == "job 2 (OUT_OF_MEMORY): srun: error: Out Of Memory"
