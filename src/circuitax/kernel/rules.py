"""By what the nonlinear steps of the forward pass are carried out: themselves, unless told.

A rule takes a step, such as a softmax, and gives one of the same values, perhaps with another
derivative (`kernel.secants`).
"""

from collections.abc import Callable
from typing import Any

Step = Callable[..., Any]
Rule = Callable[[Step], Step]


def plain(step: Step) -> Step:
    """The step itself."""
    return step
