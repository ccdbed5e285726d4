"""Cores and memory of this machine; the cores of a CPU are devices for small models."""

import os

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
