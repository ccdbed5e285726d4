"""Names and modules that are imported at their first use (PEP 562).

``import circuitax`` takes no time, and ``cx.ledger`` imports what the ledger needs and no more.
"""

import difflib
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from circuitax.names import definitions, suggestion

Getter = Callable[[str], Any]
Lister = Callable[[], list[str]]


def lazy_names(package: str, short: str, places: Mapping[str, str]) -> tuple[Getter, Lister]:
    """``__getattr__`` and ``__dir__`` of a package that lends names from its modules.

    Args:
        package: The package's own name.
        short: The name it is imported as, for messages.
        places: Where each name is: ``"module"`` for a name that the module calls the same,
            ``"module:other"`` for one that it calls otherwise, ``"package.*"`` for a whole package.
    """

    def get(name: str) -> Any:
        if name not in places:
            raise _unknown(package, name, places, f"{short}.")
        module, _, other = places[name].partition(":")
        loaded = importlib.import_module(module.removesuffix(".*"))
        return loaded if module.endswith(".*") else getattr(loaded, other or name)

    if not any(isinstance(finder, _Missing) for finder in sys.meta_path):
        sys.meta_path.append(_Missing(package, places))
    return get, lambda: sorted(places)


class _Missing:
    """The last finder of modules below a package, asked after all others have failed.

    Python says ``No module named 'circuitax.train'``, and this what may have been meant.
    """

    def __init__(self, package: str, places: Mapping[str, str]) -> None:
        self.package, self.places = package, places

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        top, _, leaf = name.partition(".")
        if top != self.package or leaf.rpartition(".")[2].startswith("_"):
            return
        if leaf in self.places:
            hint = f"; it is no module: from {top} import {leaf}"
        else:
            modules = {module for module, _ in definitions()}
            modules |= {module.rpartition(".")[0] for module in modules} - {top}
            places = {module.rpartition(".")[2]: module for module in sorted(modules, reverse=True)}
            parent, _, last = name.rpartition(".")
            beside = {end: f"{parent}.{end}" for end in places if f"{parent}.{end}" in modules}
            places |= beside
            found = [
                *difflib.get_close_matches(last, beside, n=1),
                *difflib.get_close_matches(last, places, n=1),
            ]
            hint = f"; did you mean {places[found[0]]}?" if found else ""
        raise ModuleNotFoundError(f"No module named {name!r}{hint}", name=name)


def lazy_modules(package: str) -> tuple[Getter, Lister]:
    """``__getattr__`` and ``__dir__`` of a package whose modules are its attributes."""

    def names() -> list[str]:
        paths = importlib.import_module(package).__path__
        return sorted(found.name for found in pkgutil.iter_modules(paths))

    def get(name: str) -> Any:
        if name.startswith("_") or name not in names():
            raise _unknown(package, name, names(), f"{package}.")
        return importlib.import_module(f"{package}.{name}")

    return get, names


def _unknown(package: str, name: str, allowed: Iterable[str], prefix: str) -> AttributeError:
    # Python itself asks for names such as __path__ and __wrapped__, and wants no advice.
    hint = "" if name.startswith("_") else suggestion(name, allowed, prefix)
    face = sys.modules[package.partition(".")[0]]
    if package != face.__name__ and name in dir(face):
        hint = f"; it is {face.__name__}.{name}"
    return AttributeError(f"module {package!r} has no attribute {name!r}{hint}")


def import_later(name: str) -> None:
    """Defer every later ``import name`` of this process until the package's first use.

    An annotation asks for it when its function is defined, unless it is quoted. (With the standard
    library's ``LazyLoader``, which loads at any attribute, the first ``import`` statement does.)

    Args:
        name: A package at the top; one that was imported before stays as it is.
    """
    sys.modules.setdefault(name, _Later(name))


class _Later(ModuleType):
    """Stand-in for a package until its first use, and for modules that imported it before."""

    def __getattr__(self, attribute: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), attribute)
