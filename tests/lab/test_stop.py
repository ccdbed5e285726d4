"""A signal sets a flag and nothing else; the second one acts as if there were no flag."""

import os
import signal

import pytest

from circuitax.lab.stop import StopFlag, Stopped


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_flag(number: signal.Signals, status: int, capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(number)
    with StopFlag() as stop:
        stop.raise_if_set()
        os.kill(os.getpid(), number)
        assert stop.number == number
        assert signal.getsignal(number) is before  # a second signal would act
        with pytest.raises(Stopped) as caught:
            stop.raise_if_set()
    assert caught.value.exit_status == status
    assert not isinstance(caught.value, Exception)
    assert "stopping at the next border" in capfd.readouterr().err
    assert signal.getsignal(number) is before
