"""A random walk: the smallest experiment that loops, for the tests of the house."""

import os
import time
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import jax
import jax.numpy as jnp
import xarray as xr

from circuitax.config.ranges import PositiveNumber
from circuitax.lab.lab import Lab


class Law(Enum):
    normal = "normal"
    uniform = "uniform"


@dataclass(frozen=True)
class Step:
    law: Law = Law.normal
    size: PositiveNumber = 1.0


@dataclass(frozen=True)
class Spec:
    step: Step
    n_steps: int
    rate: tuple[float, ...] = (0.1, 0.2)
    members: int = 3
    fail: str = ""


class Walk(NamedTuple):
    position: jax.Array
    key: jax.Array


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    if spec.fail == "error":
        raise RuntimeError("the walk was told to fail")

    @jax.jit
    def chunk(walk: Walk) -> tuple[Walk, dict[str, jax.Array]]:
        key, step_key = jax.random.split(walk.key)
        draw = jax.random.normal(step_key, walk.position.shape) * spec.step.size
        position = walk.position + draw * jnp.asarray(spec.rate)[:, None]
        return Walk(position, key), {"position": position}

    def advance(walk: Walk) -> tuple[Walk, dict[str, jax.Array]]:
        time.sleep(float(os.environ.get("HOUSE_WALK_DELAY", "0")))
        return chunk(walk)

    start = Walk(jnp.zeros((len(spec.rate), spec.members)), key)
    end, metrics = lab.loop("walk", start, advance, spec.n_steps, show="position")
    lab.save_arrays("end", {"position": end.position})
    data = xr.Dataset(
        {
            "position": (("chunk", "rate", "member"), metrics["position"]),
            "end": (("rate", "member"), metrics["position"][-1]),
            "spread": (("rate",), metrics["position"][-1].std(axis=-1)),
        },
        {"rate": list(spec.rate)},
    )
    if spec.fail == "figure":
        data = data.drop_vars("position")
    return data.assign_attrs(members=spec.members)
