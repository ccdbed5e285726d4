"""Vectors: sparse features, features in pairs, and random rows of an array."""

import hashlib
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from circuitax.kernel.checks import check_range


@dataclass(frozen=True)
class SparseTask:
    """Sparse features, swept over sparsity and over the decay of importance.

    A number or a list is accepted for the two swept fields, so that ``task.sparsity=0.7`` is one
    job of a multirun and ``task.sparsity=[0,0.7]`` one vmapped axis; both end as a tuple.

    Attributes:
        sparsity: S, the probability that a feature is zero, in [0, 1); the density is 1 − S.
        importance_base: Feature i has the weight ``base ** i`` in the loss, i from 0; 1 is uniform.
        batch_size: Fresh samples for each step, at least 1.

    Source: toy-models paper, "Demonstrating Superposition".
    """

    # Any: OmegaConf has no union of a number and a list.
    sparsity: Any = (0.0,)
    importance_base: Any = (1.0,)
    batch_size: int = 1024

    def __post_init__(self) -> None:
        object.__setattr__(self, "sparsity", _numbers("sparsity", self.sparsity))
        object.__setattr__(
            self, "importance_base", _numbers("importance_base", self.importance_base)
        )
        for value in self.sparsity:
            if not 0 <= value < 1:
                raise ValueError(f"sparsity={value:g} must be in [0, 1): it is P(feature = 0)")
        for value in self.importance_base:
            if not value > 0:
                raise ValueError(f"importance_base={value:g} must be positive")
        check_range("batch_size", self.batch_size, "[1, inf)")

    @property
    def density(self) -> Float[Array, " density"]:
        """p = 1 − S for every sparsity of the sweep."""
        return jax.device_put(1 - _on_host(self.sparsity))

    def importance(self, n_features: int) -> Float[Array, "importance_base n_features"]:
        """``base ** i`` for every base of the sweep."""
        return _powers(_on_host(self.importance_base), n_features)


@partial(jax.jit, static_argnums=1)  # one program for each size, where eager steps take four
def _powers(base: Float[Array, " base"], count: int) -> Float[Array, "base count"]:
    return base[:, None] ** jnp.arange(count)[None, :]


def _on_host(numbers: tuple[float, ...]) -> np.ndarray:
    # JAX would compile a program to convert them, for each length.
    return np.asarray(numbers, jnp.result_type(float))


def _numbers(name: str, value: Any) -> tuple[float, ...]:
    """A tuple of floats from a number or a sequence of numbers."""
    many = value if isinstance(value, (list, tuple)) else (value,)
    for item in many:
        if isinstance(item, bool) or not isinstance(item, (int, float)):
            raise ValueError(f"{name}={value!r} must be a number or a list of numbers")
    if not many:
        raise ValueError(f"{name}=[] must hold at least one number")
    if len(set(many)) < len(many):
        raise ValueError(f"{name}={list(many)} holds a number twice")
    return tuple(float(item) for item in many)


def paired_features(
    pair: Float[Array, "batch n_pairs"],
    value: Float[Array, "batch n_features"],
    density: float | Float[Array, ""],
    together: float | Float[Array, ""],
) -> Float[Array, "batch n_features"]:
    """Features 2s and 2s + 1 form pair s: each is on with probability p, depending on the other.

    ``P(both) = p * together``; so ``together`` is 0 for features that exclude each other, p for
    independent ones, and 1 for features that are always on together. Values are uniform on [0, 1).

    Source: the distribution of two correlated features in Chanin et al. 2025, arXiv 2505.11756.
    """
    both, one, other = density * together, density, density * (2 - together)
    first = pair < one
    second = (pair < both) | ((pair >= one) & (pair < other))
    on = jnp.stack([first, second], axis=2).reshape(pair.shape[0], -1)
    return jnp.where(on[:, : value.shape[1]], value, 0)


@dataclass(frozen=True)
class VectorSource:
    """Random rows of an array on the device: called with a key it returns a batch.

    Attributes:
        batch: Rows in a batch, at least 1; a row may occur twice in one.
        rows: The vectors, at least one.
        digest: SHA-256 of the rows.
    """

    batch: int
    rows: jax.Array = field(compare=False, repr=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        check_range("batch", self.batch, "[1, inf)")
        if self.rows.ndim != 2 or not len(self.rows):
            raise ValueError(f"rows has shape {self.rows.shape}, must have rows of one length")
        table = np.ascontiguousarray(self.rows)
        named = f"{table.dtype} {table.shape} ".encode()
        object.__setattr__(self, "digest", hashlib.sha256(named + table.tobytes()).hexdigest())

    def __call__(self, key: Key[Array, ""]) -> Float[Array, "batch dim"]:
        """One batch, a pure function of the key."""
        return self.rows[jax.random.randint(key, (self.batch,), 0, len(self.rows))]
