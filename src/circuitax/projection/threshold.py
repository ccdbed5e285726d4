"""The smallest m that succeeds in practice, from success rates over independent maps."""

from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats

from circuitax.kernel.checks import check_range
from circuitax.projection.tails import check_epsilon


class Threshold(NamedTuple):
    """Smallest m with success probability at least 1 − δ, and its binomial interval."""

    dim: float  # NaN where no m of the table suffices
    low: float  # smallest m not excluded
    high: float  # smallest m proven; NaN where none is


def succeeds(
    low: Float[np.ndarray, "*sizes n_maps n_dims"],
    high: Float[np.ndarray, "*sizes n_maps n_dims"],
    epsilon: float,
) -> Bool[np.ndarray, "*sizes n_maps n_dims"]:
    """Whether all pairs of a map lie within ``1 ± ε``, from `by_dimension.Extremes`."""
    check_epsilon(epsilon)
    return np.asarray((low >= -epsilon) & (high <= epsilon))


def smallest_dim(
    success: Bool[np.ndarray, "n_maps n_dims"],
    dims: Int[np.ndarray, " n_dims"],
    delta: float,
    level: float = 0.95,
) -> Threshold:
    """The smallest m from which the success rate stays at or above ``1 − δ``, with its interval."""
    n_maps = success.shape[0]
    k = success.sum(0)
    check_range("level", level, "(0, 1)")
    sure_low, sure_high = np.transpose([_interval(int(count), n_maps, level) for count in k])
    ends = (first_dim(rate, dims, delta) for rate in (k / n_maps, sure_high, sure_low))
    return Threshold(*map(float, ends))


@cache
def _interval(successes: int, n: int, level: float) -> tuple[float, float]:
    found = stats.binomtest(successes, n).proportion_ci(level, method="exact")
    return float(found.low), float(found.high)


def first_dim(
    rate: Float[np.ndarray, "*cells n_dims"], dims: Int[np.ndarray, " n_dims"], delta: float
) -> Float[np.ndarray, "*cells"]:
    """The smallest m from which a rate stays at or above ``1 − δ``; NaN if there is none."""
    check_range("delta", delta, "(0, 1)")
    if not (np.diff(dims) > 0).all():
        raise ValueError(f"dims={np.asarray(dims)} must increase")
    enough = np.flip(np.minimum.accumulate(np.flip(rate >= 1 - delta, -1), -1), -1)
    return np.asarray(np.where(enough.any(-1), np.asarray(dims, float)[enough.argmax(-1)], np.nan))
