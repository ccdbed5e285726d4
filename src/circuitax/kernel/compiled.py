"""Functions that are one program each, compiled once for every shape and spec.

Without it a call outside ``jax.jit`` compiles each of its operations by itself, and every scan over
a new closure again at each call.

Tests and snapshots compile fast, with little optimisation: a snapshot is compared bit by bit, so
that these flags and the number of devices are part of it.
"""

import functools
import os
from collections.abc import Callable
from importlib import metadata
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
# Fewer steps than any accepted run takes: in the last bits, numbers of a training may differ.
SHORT = 100

Options = tuple[tuple[str, bool | int], ...]


def options_for(steps: int) -> Options:
    """Compiler options of a program that takes so many steps before it is dropped, by name."""
    import jax  # not above: XLA reads its flags when JAX is imported

    # Only a program of its own takes options.
    inside_another = isinstance(jax.device_put(0.0), jax.core.Tracer)
    if steps > SHORT or inside_another or jax.default_backend() != "cpu":
        return ()
    older = [("xla_cpu_use_fusion_emitters", False)] if has_older_emitters() else []
    # The user's flags go before ours.
    given = os.environ.get("XLA_FLAGS", "")
    wanted = [("xla_backend_optimization_level", 1), *older]
    return tuple(option for option in wanted if option[0] not in given)


def has_older_emitters() -> bool:
    """Whether the installed jaxlib has other emitters than the newer ones."""
    return tuple(int(part) for part in metadata.version("jaxlib").split(".")[:2]) < (0, 11)


def _before_tracing(error: Exception) -> bool:
    text = str(error)
    return "as an abstract array" in text or "Non-hashable static arguments" in text


def compiled(*static: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator of a pure function called directly or inside ``jit``, ``vmap`` and ``grad``."""
    import jax  # as above

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


N_DEVICES = 8


def fast_compile_flags() -> dict[str, str]:
    """Flags of XLA by name, for the installed jaxlib."""
    flags = {
        "xla_force_host_platform_device_count": str(N_DEVICES),
        "xla_backend_optimization_level": "0",
        "xla_llvm_disable_expensive_passes": "true",
    }
    # The older emitters compile in a third of the time, where there are any.
    return flags | ({"xla_cpu_use_fusion_emitters": "false"} if has_older_emitters() else {})


def use_fast_compile_flags() -> None:
    """Compile on the CPU with `fast_compile_flags`; to be called before JAX computes."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    given = os.environ.get("XLA_FLAGS", "")
    added = [
        f"--{name}={value}" for name, value in fast_compile_flags().items() if name not in given
    ]
    os.environ["XLA_FLAGS"] = " ".join([given, *added]).strip()
