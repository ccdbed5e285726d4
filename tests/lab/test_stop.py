"""A signal sets a flag and nothing else; the second one acts as if there were no flag."""

import os
import signal

import pytest

from circuitax.lab.stop import StopFlag, Stopped


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_flag(number: signal.Signals, status: int, capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(number)
    with StopFlag(patience=0.0) as stop:
        stop.raise_if_set()
        os.kill(os.getpid(), number)
        assert stop.number == number
        with pytest.raises(Stopped) as caught:
            stop.raise_if_set()
    assert caught.value.exit_status == status
    assert not isinstance(caught.value, Exception)
    assert "stopping at the next border" in capfd.readouterr().err
    assert signal.getsignal(number) is before


def test_a_second_signal_acts_unless_it_comes_at_once() -> None:
    reached: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: reached.append(number))
    try:
        with StopFlag(announce=False) as stop:  # a group is stopped, and its leader passes it on
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.number == signal.SIGTERM and not reached
        with StopFlag(announce=False, patience=0.0):
            os.kill(os.getpid(), signal.SIGTERM)
            assert not reached
            os.kill(os.getpid(), signal.SIGTERM)
            assert reached == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
