"""Random layers, stacked: width and depth change shapes, and a pass takes as long as asked for."""

import os
import time
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import xarray as xr

from circuitax.lab.lab import Lab
from circuitax.records.record import Record


@dataclass(frozen=True)
class Spec:
    """What is computed, and what goes wrong.

    Attributes:
        width: Of the stream.
        depth: Layers.
        n_passes: How often the stream goes through all layers, each time a chunk.
        fail: ``error`` raises an exception.
    """

    width: int = 2
    depth: int = 1
    n_passes: int = 4
    fail: str = ""


class Stream(NamedTuple):
    x: jax.Array
    layers: jax.Array


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    if spec.fail == "error":
        raise RuntimeError("the stack was told to fail")
    scale = spec.width**-0.5
    layers = scale * jax.random.normal(key, (spec.depth, spec.width, spec.width))

    @jax.jit
    def chunk(stream: Stream) -> tuple[Stream, dict[str, jax.Array]]:
        x = stream.x
        for layer in range(spec.depth):
            x = x + jnp.tanh(stream.layers[layer] @ x)
        x = x / jnp.sqrt(jnp.mean(x**2))
        return Stream(x, stream.layers), {"mean": x.mean(), "largest": jnp.abs(x).max()}

    def advance(stream: Stream) -> tuple[Stream, dict[str, jax.Array]]:
        time.sleep(float(os.environ.get("HOUSE_STACK_DELAY", "0")))
        return chunk(stream)

    start = Stream(jnp.linspace(-1.0, 1.0, spec.width), layers)
    _, metrics = lab.loop("stack", start, advance, spec.n_passes, show="mean")
    data = {name: (("pass",), values) for name, values in metrics.items()}
    return Record(xr.Dataset(data, {"pass": range(spec.n_passes)}), {})
