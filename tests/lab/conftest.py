"""The experiments of tests/house, with results in a folder of the test's own."""

from pathlib import Path

import pytest

from circuitax.config.catalogue import VARIABLE, ExperimentEntry, discover
from circuitax.lab import runs

HOUSE = Path(__file__).parent.parent / "house"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path / "results"))
    return tmp_path / "results"


@pytest.fixture
def entries(results: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, ExperimentEntry]:
    monkeypatch.setenv(VARIABLE, str(HOUSE))
    return discover()
