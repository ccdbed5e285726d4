"""Plain text diluted with repeats: one training problem for every share of repeating windows."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.data.windows import WindowSource, repeat_beginnings
from circuitax.kernel.keys import at_index, derive
from circuitax.training.language import LanguageModule, initial_params, module_losses


class Diluted(NamedTuple):
    """Windows before it is decided which of them repeat.

    Attributes:
        period: Period of each, should it repeat.
        draw: Uniform on [0, 1): a window repeats where this is below the share.
    """

    windows: Int[Array, "batch length"]
    period: Int[Array, " batch"]
    draw: Float[Array, " batch"]


@dataclass(frozen=True)
class DilutedRepeats:
    """A `Problem`: next tokens of windows of a text, a share of which repeats its beginning.

    ``hyper`` is the share, in [0, 1]: every window repeats with that probability, so that shares
    below one window a batch are possible, and one compilation serves all of them.

    Attributes:
        module: The Flax module that is trained, without a start token.
        windows: Source of the windows.
        min_period: Shortest period, at least 1.
        max_period: Longest one, below the length of a window.

    Raises:
        ValueError: If the periods are out of range.
    """

    module: LanguageModule
    windows: WindowSource
    min_period: int
    max_period: int

    def __post_init__(self) -> None:
        if not 1 <= self.min_period <= self.max_period < self.windows.length:
            raise ValueError(
                f"min_period={self.min_period} and max_period={self.max_period} must satisfy "
                f"1 <= min_period <= max_period < length={self.windows.length}"
            )

    def init(self, key: Key[Array, ""], hyper: PyTree) -> PyTree:
        """Fresh parameters."""
        return initial_params(self.module, key, self.windows.length)

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> Diluted:
        """The windows of one step, the same for every share."""
        now = at_index(key, step)
        rows = self.windows(derive(now, "windows"))
        n = rows.shape[0]
        period = jax.random.randint(
            derive(now, "period"), (n,), self.min_period, self.max_period + 1
        )
        return Diluted(rows, period, jax.random.uniform(derive(now, "share"), (n,)))

    def loss(self, params: PyTree, batch: Diluted, hyper: Float[Array, ""]) -> Float[Array, ""]:
        """Mean cross-entropy of all next tokens, nats."""
        return jnp.mean(module_losses(self.module, params, diluted_texts(batch, hyper)))


def diluted_texts(batch: Diluted, share: Float[Array, ""]) -> Int[Array, "batch length"]:
    """The windows as they are trained on: a share of them repeats its beginning.

    Args:
        batch: From `DilutedRepeats.batch`.
        share: In [0, 1].
    """
    whole = batch.windows.shape[1]
    period = jnp.where(batch.draw < share, batch.period, whole)
    return repeat_beginnings(batch.windows, period)
