"""Packages that are imported when something of them is asked for."""

import importlib
import sys
from pathlib import Path

import pytest

from circuitax.lazy import import_later


def test_a_package_waits_until_something_of_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "imported_later"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("from imported_later.part import number\n")
    (tmp_path / name / "part.py").write_text("number = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    import_later(name)
    early = importlib.import_module(name)
    assert f"{name}.part" not in sys.modules
    assert early.number == 3
    whole = sys.modules[name]
    whole.number = 4
    assert early.number == 4  # who imported it early sees what it is now
    import_later(name)
    assert sys.modules.pop(name) is whole and sys.modules.pop(f"{name}.part").number == 3
