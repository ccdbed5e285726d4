"""Names of a package that are imported when they are first asked for (PEP 562).

``import circuitax`` takes no time, and ``cx.ledger`` imports what the ledger needs and no more.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

Getter = Callable[[str], Any]
Lister = Callable[[], list[str]]


def lazy_names(package: str, places: Mapping[str, str]) -> tuple[Getter, Lister]:
    """``__getattr__`` and ``__dir__`` of a package that lends names from its modules.

    Args:
        package: The package's own name.
        places: Where each name is: ``"module"`` for a name that the module calls the same,
            ``"module:other"`` for one that it calls otherwise, ``"package.*"`` for a whole package.
    """

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, other = places[name].partition(":")
        loaded = importlib.import_module(module.removesuffix(".*"))
        return loaded if module.endswith(".*") else getattr(loaded, other or name)

    return get, lambda: sorted(places)


def lazy_modules(package: str) -> tuple[Getter, Lister]:
    """``__getattr__`` and ``__dir__`` of a package whose modules are its attributes."""

    def names() -> list[str]:
        paths = importlib.import_module(package).__path__
        return sorted(found.name for found in pkgutil.iter_modules(paths))

    def get(name: str) -> Any:
        if name.startswith("_") or name not in names():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return get, names
