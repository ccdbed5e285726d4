"""A record of one width, with code compiled for it alone: what a sweep over shapes is made of."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.lab.compilation import footprint
from circuitax.lab.lab import Lab
from circuitax.records.record import Record


@dataclass(frozen=True)
class Spec:
    """What is computed, and what goes wrong.

    Attributes:
        width: Of the array; each has code of its own.
        functions: Functions that are compiled for it.
        fail: ``abort``, ``kill`` or ``exit`` end the process in the middle of the job.
    """

    width: int = 2
    functions: int = 2
    fail: str = ""


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    x = jnp.arange(1.0, 1 + spec.width)
    for number in range(spec.functions):
        x = jax.jit(lambda x, number=number: jnp.sort(jnp.sin(x) + number * jnp.cumsum(x)))(x)
    total = float(x.sum())
    if spec.fail == "abort":
        os.abort()
    if spec.fail == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if spec.fail == "exit":
        os._exit(7)
    where = os.environ.get("HOUSE_SHAPES_LOG")
    if where:
        maps, megabytes = footprint()
        with Path(where).open("a") as file:
            file.write(f"{os.getpid()} {maps} {megabytes:.1f}\n")
    return Record(xr.Dataset({"total": ((), np.float64(total))}), {})
