"""XLA flags for fast compilation with little optimisation: for tests and snapshots.

A snapshot is compared bit by bit, so that the flags and the number of devices are part of it.
"""

import os

from circuitax.kernel.compiled import has_older_emitters

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
