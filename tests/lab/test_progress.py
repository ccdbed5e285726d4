"""A bar on a terminal, a line now and then elsewhere."""

import io

import pytest

from circuitax.lab import progress
from circuitax.lab.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_gets_a_bar() -> None:
    stream = Terminal()
    bar = Progress("train", 10, start=4, stream=stream)
    for _ in range(3):
        bar.advance("loss 0.5")
    bar.close()
    assert "train" in stream.getvalue() and "4/10" in stream.getvalue()


def test_a_log_gets_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    bar = Progress("train", 100, start=10, stream=stream)
    for _ in range(40):
        now[0] += 1.0
        bar.advance("loss 0.5")
    bar.close()
    assert stream.getvalue() == "train: 40/100 chunks, 1 chunks/s, 60 s left, loss 0.5\n"


def test_unknown_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    stream = io.StringIO()
    Progress("scan", None, unit="item", stream=stream).advance()
    assert stream.getvalue().startswith("scan: 1/? items, ")
