"""Training vectors, such as activations of a model: batches of random rows of an array."""

import hashlib
from dataclasses import dataclass, field

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from circuitax.kernel.checks import check_range


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
