"""Packages that are imported at their first use, in every module of this process."""

import importlib
import sys
from types import ModuleType
from typing import Any


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
