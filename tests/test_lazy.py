"""Modules that are imported when something of them is asked for."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from circuitax.lazy import import_later


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a package that can be imported, and was not."""
    name = "imported_later"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("from imported_later.part import number\n")
    (tmp_path / name / "part.py").write_text("number = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for module in (name, f"{name}.part"):
        sys.modules.pop(module, None)


def test_a_package_waits_until_something_of_it_is_asked_for(package: str) -> None:
    import_later(package)
    first, second = importlib.import_module(package), importlib.import_module(package)
    assert first is second and f"{package}.part" not in sys.modules
    assert first.number == 3
    whole = sys.modules[package]
    assert whole is importlib.import_module(package) is not first
    whole.number = 4
    assert second.number == 4  # who imported it early sees what it is now
    with pytest.raises(AttributeError, match="nothing"):
        second.nothing  # noqa: B018


def test_names_and_parts_can_be_imported_from_it(package: str) -> None:
    import_later(package)
    scope: dict[str, int] = {}
    exec(f"from {package} import number\nimport {package}.part as part", scope)
    assert scope["number"] == scope["part"].number == 3


def test_a_part_may_be_asked_for_first(package: str) -> None:
    import_later(package)
    assert importlib.import_module(f"{package}.part").number == 3
    assert sys.modules[package].number == 3


def test_what_is_imported_already_stays(package: str) -> None:
    before = importlib.import_module(package)
    import_later(package)
    assert sys.modules[package] is before


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("circuitax.train", "; it is no module: from circuitax import train"),
        ("circuitax.trainer", "; did you mean circuitax.training?"),
        ("circuitax.kernel.atention", "; did you mean circuitax.kernel.attention?"),
        ("circuitax.spectra", "; did you mean circuitax.circuits.weights.spectra?"),
        ("circuitax.zzz", ""),
    ],
)
def test_a_module_that_does_not_exist_has_a_nearest_name(module: str, hint: str) -> None:
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module(module)
    assert str(raised.value) == f"No module named {module!r}{hint}" and raised.value.name == module
