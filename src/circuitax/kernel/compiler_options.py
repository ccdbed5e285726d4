"""Options of XLA for programs that run so shortly that compiling them well takes longer."""

import os
from importlib import metadata

# Fewer steps than any accepted run takes: in the last bits, numbers of a training may differ.
SHORT = 100

Options = tuple[tuple[str, bool | int], ...]


def options_for(steps: int) -> Options:
    """Compiler options of a program that takes so many steps before it is dropped, by name."""
    import jax  # not above: `lab.cheap_code` sets flags before JAX is imported

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
    """Whether the installed jaxlib can do without its newer emitters, from 0.11 on the only ones."""
    return tuple(int(part) for part in metadata.version("jaxlib").split(".")[:2]) < (0, 11)
