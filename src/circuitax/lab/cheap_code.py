"""XLA flags for fast compilation with little optimisation: for tests, twins and small suites.

A twin is compared bit by bit, so that the flags and the number of devices are part of it.
"""

import os
from collections.abc import Mapping

from circuitax.kernel.compiled import has_older_emitters

N_DEVICES = 8


def cheap_flags() -> dict[str, str]:
    """Flags of XLA by name, for the installed jaxlib."""
    return {
        "xla_force_host_platform_device_count": str(N_DEVICES),
        "xla_backend_optimization_level": "0",
        "xla_llvm_disable_expensive_passes": "true",
        **_older_emitters(),
    }


def quick_flags() -> dict[str, str]:
    """Flags of XLA for runs whose numbers nobody keeps: a third less compiling, steps as fast.

    For a whole process, the options that `kernel.compiled` gives to short programs.
    """
    return {"xla_backend_optimization_level": "1", **_older_emitters()}


def _older_emitters() -> dict[str, str]:
    """The older emitters, which compile in a third of the time, where there are any."""
    return {"xla_cpu_use_fusion_emitters": "false"} if has_older_emitters() else {}


def use_cheap_code() -> None:
    """Compile on the CPU with `cheap_flags`; to be called before JAX computes."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    add_flags(cheap_flags())


def add_flags(flags: Mapping[str, str]) -> None:
    """Set flags of XLA unless XLA_FLAGS sets them; to be called before JAX computes.

    Processes that this one starts inherit them.
    """
    given = os.environ.get("XLA_FLAGS", "")
    added = [f"--{name}={value}" for name, value in flags.items() if name not in given]
    os.environ["XLA_FLAGS"] = " ".join([given, *added]).strip()
