"""Products of many matrices in the cheapest order."""

import functools
import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import Array


def multiply(factors: tuple[Array, ...]) -> Array:
    """The product of the factors in the cheapest order, leading axes counted."""
    plan = cheapest(tuple(factor.shape for factor in factors))

    def product(i: int, j: int) -> Array:
        if j == i + 1:
            return factors[i]
        cut = plan(i, j)[1]
        return product(i, cut) @ product(cut, j)

    return product(0, len(factors))


def cheapest(shapes: tuple[tuple[int, ...], ...]) -> Callable[[int, int], tuple[int, int]]:
    """``plan(i, j) -> (cost, cut)`` for the product of factors ``i … j-1``, in multiplications."""

    @functools.cache
    def plan(i: int, j: int) -> tuple[int, int]:
        if j == i + 1:
            return 0, i
        heads = math.prod(jnp.broadcast_shapes(*(shape[:-2] for shape in shapes[i:j])))
        ends = heads * shapes[i][-2] * shapes[j - 1][-1]
        return min(
            (plan(i, cut)[0] + plan(cut, j)[0] + ends * shapes[cut][-2], cut)
            for cut in range(i + 1, j)
        )

    return plan
