"""The log of a session never stands in the way of the session."""

import logging
from pathlib import Path

import pytest

from circuitax.lab.session import LogFile, log_to


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
def test_a_full_disk_cuts_the_log_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.txt").symlink_to("/dev/full")
    logger = logging.getLogger("test_session")
    with log_to(logger, tmp_path / "log.txt"):
        logger.info("one line")
    assert capsys.readouterr().err == ""


def test_a_message_that_cannot_be_made_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = LogFile(tmp_path / "log.txt")
    handler.handle(logging.LogRecord("x", logging.INFO, "", 1, "%d", ("no number",), None))
    handler.close()
    assert "--- Logging error ---" in capsys.readouterr().err
