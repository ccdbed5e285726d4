"""The measured numbers of an experiment, which settle its claims."""

import inspect
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from circuitax.records.estimate import Estimate, finite_or_none

Function = TypeVar("Function", bound=Callable[..., Any])
_QUANTITIES = "quantities"


class Measured(NamedTuple):
    """Return value of an experiment's ``measure(record)``.

    Attributes:
        estimates: Numbers with their intervals, by the names that the claims use.
        unmet: Claims whose precondition is not met, by id, with the reason: no seed has an
            induction head, say, or every head is one. Their verdict is ``"absent"``.
        not_run: Claims that nothing could settle, by id, with the reason: weights are not at hand,
            a precision is too low, texts are others. Their verdict is ``"not run"``.
    """

    estimates: dict[str, Estimate]
    unmet: dict[str, str]
    not_run: Mapping[str, str] = MappingProxyType({})

    def to_json(self) -> dict[str, Any]:
        """Plain values for ``scalars.json``; numbers that are not finite become ``None``."""
        numbers = {name: finite_or_none(item._asdict()) for name, item in self.estimates.items()}
        return {"measured": numbers, "unmet": dict(self.unmet), "not_run": dict(self.not_run)}


def measures(*quantities: str) -> Callable[[Function], Function]:
    """Decorator that declares the quantities a function measures, which ``measure`` gathers.

    Claims that these settle lead to the function from the page; all others lead to ``measure``.

    Args:
        quantities: Names, or patterns such as ``"planted-*"``; no other function of the module that
            measures may declare the same quantity.
    """

    def declared(function: Function) -> Function:
        setattr(function, _QUANTITIES, quantities)
        return function

    return declared


def measured_by(quantity: str, measure: Callable[..., Measured]) -> Callable[..., Any]:
    """The function that declares a quantity in the module of ``measure``; else ``measure``."""
    whole = inspect.unwrap(measure)
    for function in vars(inspect.getmodule(whole)).values():
        if any(fnmatchcase(quantity, name) for name in getattr(function, _QUANTITIES, ())):
            return inspect.unwrap(function)
    return whole
