"""Functions that are one program each, compiled once for every shape and spec.

Without it a call outside ``jax.jit`` compiles each of its operations by itself, and every scan over
a new closure again at each call.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def compiled(*static: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator of a pure function that is called as it is, or in ``jit``, ``vmap`` and ``grad``.

    In a caller's own program it is written out, so that the program is the same as without it.

    Args:
        static: Names of arguments that are no arrays and decide the program; they are hashable. A
            function among them is known by its identity: one that is made anew compiles anew.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        program = jax.jit(function, static_argnames=static, inline=True)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return program(*args, **kwargs)

        return call

    return decorate
