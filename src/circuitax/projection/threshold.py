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
    """Whether all pairs of a map lie within ``1 ± ε``, from `by_dimension.Extremes`.

    Raises:
        ValueError: If ``epsilon`` is outside (0, 1).
    """
    check_epsilon(epsilon)
    return np.asarray((low >= -epsilon) & (high <= epsilon))


def smallest_dim(
    success: Bool[np.ndarray, "n_maps n_dims"],
    dims: Int[np.ndarray, " n_dims"],
    delta: float,
    level: float = 0.95,
) -> Threshold:
    """The smallest m from which the success rate stays at or above ``1 − δ``, with its interval.

    Success rates at different m come from the same maps and are dependent; each alone is binomial,
    and the interval asks at every m whether the rate ``1 − δ`` is excluded there. It is that of
    Clopper and Pearson, which is exact (conservative) for every number of maps.

    Args:
        success: One row for each map; maps are independent.
        dims: Increasing m.
        delta: In (0, 1).
        level: Coverage of the binomial interval.

    Raises:
        ValueError: If ``delta`` or ``level`` is outside (0, 1), or ``dims`` does not increase.
    """
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
    """The smallest m from which a rate stays at or above ``1 − δ``; NaN if there is none.

    Raises:
        ValueError: If ``delta`` is outside (0, 1) or ``dims`` does not increase.
    """
    check_range("delta", delta, "(0, 1)")
    if not (np.diff(dims) > 0).all():
        raise ValueError(f"dims={np.asarray(dims)} must increase")
    enough = np.flip(np.minimum.accumulate(np.flip(rate >= 1 - delta, -1), -1), -1)
    return np.asarray(np.where(enough.any(-1), np.asarray(dims, float)[enough.argmax(-1)], np.nan))


def transition_width(
    success: Bool[np.ndarray, "n_maps n_dims"],
    dims: Int[np.ndarray, " n_dims"],
    levels: tuple[float, float] = (0.1, 0.9),
) -> float:
    """Sharpness of the transition: the m at which 90 % of the maps succeed over that for 10 %.

    A ratio of 1 is a step. The two m are interpolated in log m on the monotone envelope of the
    success rate; the result is NaN where the table does not contain both levels.

    Raises:
        ValueError: If the levels are not ordered inside (0, 1).
    """
    if not 0 < levels[0] < levels[1] < 1:
        raise ValueError(f"levels={levels} must be increasing and in (0, 1)")
    rate = np.maximum.accumulate(success.mean(0))
    if rate[0] > levels[0] or rate[-1] < levels[1]:
        return float("nan")
    # A step of the envelope has one m: np.interp needs strictly increasing rates.
    values, where = np.unique(rate, return_index=True)
    at = np.interp(levels, values, np.log(np.asarray(dims)[where]))
    return float(np.exp(at[1] - at[0]))
