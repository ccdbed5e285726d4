"""Processes start in order, as many as may, each behind those that it needs."""

import os
import signal
import sys
from pathlib import Path

import pytest

from circuitax.commands.launch import in_order
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
