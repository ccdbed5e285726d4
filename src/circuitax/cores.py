"""This machine: its cores, memory and processor, and how programs are compiled on it.

The cores of a CPU are devices for small models.
"""

import hashlib
import os
import platform
import warnings
from pathlib import Path

VARIABLE = "JAX_NUM_CPU_DEVICES"
# Where a device waits for another one, XLA ends the process after 40 seconds. On a busy machine, or
# after a pause (SIGSTOP), the other one is late and not stuck.
_PATIENCE = "--xla_cpu_collective_call_terminate_timeout_seconds=86400"


def n_cores() -> int:
    """Number of cores this process may use; all of the machine where the system has no limit."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def one_device_a_core() -> None:
    """Expose each core of the CPU to JAX as a device, in this process and its children.

    Products of small models gain little from a second core, ensembles spread over devices much
    (`Lab.mesh`). To be called before JAX computes anything. Where ``VARIABLE`` or a flag of XLA
    names a number of devices, that is theirs.

    Each program ends before the next one begins. A device of XLA's holds 32 programs at most: where
    one is to add up over devices, the first could wait for ever for the second, which waits for
    room behind those that were sent ahead.
    """
    import jax  # not for those who count cores alone

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    if VARIABLE in os.environ or "device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    cores = n_cores()
    os.environ[VARIABLE] = str(cores)
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_PATIENCE}".strip()
    jax.config.update("jax_num_cpu_devices", cores)


def machine_bytes() -> int | None:
    """Bytes of this machine's memory; None where the system does not say."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # no such function, name, or answer
        return None
    return found if found > 0 else None


def keep_compiled_code(folder: Path) -> Path:
    """Turn JAX's cache on disk on; code of one processor may crash on another, so each has its own.

    Where the folder cannot be written everything is compiled anew.
    """
    import jax  # as above

    target = folder / "xla" / processor()
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError:
        return target
    warnings.filterwarnings("ignore", "Error writing persistent compilation cache entry")
    jax.config.update("jax_compilation_cache_dir", str(target))
    # Toy models compile in less than JAX's default threshold of a second, many times over.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return target


def multiply_in_float32() -> None:
    """Multiply float32 matrices in float32 on every device, unless a setting of JAX says how.

    By default a GPU rounds the factors to TF32 (11 bits) and a TPU to bfloat16 (8 bits): on an H200
    sums of paths closed to 6e-4 and not to 1e-6. A CPU computes in float32 either way.
    ``JAX_DEFAULT_MATMUL_PRECISION=tensorfloat32`` keeps the faster products.
    """
    import jax  # as above

    if jax.config.values["jax_default_matmul_precision"] is None:
        jax.config.update("jax_default_matmul_precision", "highest")


def processor() -> str:
    """Kind of processor, with a hash of its features."""
    features = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        kept = ("model name", "flags", "Features", "CPU part")
        lines = cpuinfo.read_text().split("\n\n")[0].split("\n")
        features = "\n".join(sorted(line for line in lines if line.startswith(kept)))
    digest = hashlib.sha256(features.encode()).hexdigest()[:8]
    return f"{platform.machine()}-{digest}"
