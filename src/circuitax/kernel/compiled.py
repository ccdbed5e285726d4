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


def _before_tracing(error: Exception) -> bool:
    text = str(error)
    return "as an abstract array" in text or "Non-hashable static arguments" in text


def compiled(*static: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator of a pure function called directly or inside ``jit``, ``vmap`` and ``grad``."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        program = jax.jit(function, static_argnames=static, inline=True)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return program(*args, **kwargs)
            except (TypeError, ValueError) as error:
                if not _before_tracing(error):
                    raise
            # What is no array, or cannot be hashed, JAX refuses in words of its own before the
            # function has seen it. The function's checks name the argument.
            function(*args, **kwargs)
            return program(*args, **kwargs)

        return call

    return decorate
