"""Repeated windows of a text: real tokens, in repeats that only induction predicts."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from circuitax.data.windows import WindowSource
from circuitax.kernel.keys import derive


@dataclass(frozen=True)
class RepeatedWindowSource:
    """Windows, some or all of which repeat their beginning, each with its own period.

    ``tokens[i] = window[i mod period]``, the period uniform on ``[min_period, max_period]``. Unlike
    repeats of random symbols, these have the statistics of the text, so bigrams are learned too.

    Attributes:
        windows: Source of the windows.
        min_period: At least 1.
        max_period: At least ``min_period`` and below the length of a window; if they are
            equal, one layer can predict the repeats by position.
        share: Share of a batch's windows that repeat, in (0, 1]; the others stay whole.
    """

    windows: WindowSource
    min_period: int
    max_period: int
    share: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.min_period <= self.max_period < self.windows.length:
            raise ValueError(
                f"min_period={self.min_period} and max_period={self.max_period} must satisfy "
                f"1 <= min_period <= max_period < length={self.windows.length}"
            )
        if not 0 < self.share <= 1:
            raise ValueError(f"share={self.share} must lie in (0, 1]")

    def __call__(self, key: Key[Array, ""]) -> Int[Array, "batch length"]:
        """One batch, a pure function of the key."""
        rows = self.windows(derive(key, "windows"))
        period = jax.random.randint(
            derive(key, "period"), rows.shape[:1], self.min_period, self.max_period + 1
        )
        whole = jnp.arange(rows.shape[0]) >= round(self.share * rows.shape[0])
        period = jnp.where(whole, rows.shape[1], period)
        return repeat_beginnings(rows, period)


def repeat_beginnings(
    rows: Int[Array, "batch length"], period: Int[Array, " batch"]
) -> Int[Array, "batch length"]:
    """Every row repeated with its period, ``rows[i mod period]``."""
    source = jnp.arange(rows.shape[1])[None, :] % period[:, None]
    return jnp.take_along_axis(rows, source, axis=1)
