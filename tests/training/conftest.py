"""A tiny training problem: the mathematics of the loop without a model."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import Array

from circuitax.kernel.keys import at_index


class Scale(NamedTuple):
    """The dynamic number of a `Quadratic`."""

    scale: Array


@dataclass(frozen=True)
class Quadratic:
    """``mean_batch |p - scale * noise|^2``: least at the scaled mean of the noise."""

    size: int = 3

    def init(self, key: Array, hyper: Scale) -> Array:
        return jax.random.normal(key, (self.size,))

    def batch(self, key: Array, step: Array) -> Array:
        return 1 + jax.random.normal(at_index(key, step), (8, self.size))

    def loss(self, params: Array, batch: Array, hyper: Scale) -> Array:
        return jnp.mean((params[None, :] - hyper.scale * batch) ** 2)


@pytest.fixture
def quadratic() -> Quadratic:
    return Quadratic()


@pytest.fixture
def scales() -> Scale:
    return Scale(jnp.array([0.5, 1.0, 1.5, 2.0, 2.5, 3.0]))
