"""The experiments of tests/house, run by the real entries with results of the test's own."""

from pathlib import Path

import pytest

from circuitax import cores
from circuitax.commands import reproduce
from circuitax.config import catalogue
from circuitax.lab import runs

HOUSE = Path(__file__).parent.parent / "house"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty results folder; compiled code is kept where the session keeps it."""
    folder = tmp_path / "results"
    monkeypatch.setenv(runs.VARIABLE, str(folder))
    monkeypatch.setenv(catalogue.VARIABLE, str(HOUSE))
    monkeypatch.setattr(cores, "keep_compiled_code", lambda place: place)

    def accepted(name: str) -> Path:
        if not (folder / name / runs.ACCEPTED).is_dir():
            raise ValueError(f"experiment={name} has no accepted run")
        return folder / name / runs.ACCEPTED

    # Those of the checkout would be on all pages too.
    monkeypatch.setattr(reproduce, "accepted_run", accepted)
    return folder
