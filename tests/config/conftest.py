"""The experiments of tests/house, beside the built-in ones."""

from pathlib import Path

import pytest

from circuitax.config.catalogue import VARIABLE, ExperimentEntry, discover

HOUSE = Path(__file__).parent.parent / "house"


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> dict[str, ExperimentEntry]:
    monkeypatch.setenv(VARIABLE, str(HOUSE))
    return discover()
