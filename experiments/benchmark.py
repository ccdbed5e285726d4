"""Measure against other libraries: ``python -m experiments.benchmark``."""

import jax

from circuitax.cores import multiply_in_float32, n_cores
from experiments.benchmarks.harness import main

if __name__ == "__main__":
    # One device a core: what asks for a mesh trains members side by side, the rest uses the first.
    # Here, since a process that has computed already cannot have more devices.
    jax.config.update("jax_num_cpu_devices", n_cores())
    multiply_in_float32()
    main()
