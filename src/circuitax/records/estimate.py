"""A measured number with its interval: mean, share, difference, ratio, slope, or one selection.

Any other number of independent units has the interval of a bootstrap over them.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, SupportsFloat, SupportsInt

import numpy as np
from numpy.typing import ArrayLike

from circuitax.display.tables import documented
from circuitax.kernel.checks import check_range

_Z2 = 1.959964**2  # of Wilson's interval at 95 %


@documented
class Estimate(NamedTuple):
    """One number, its interval, and the number of independent replicates behind it.

    Attributes:
        value: The point estimate.
        low: Lower end of the interval.
        high: Upper end of the interval.
        n: Independent replicates (initialisation and data keys both differ).
        method: How the interval was made, such as ``"mean, t interval 95%"``.
    """

    value: float
    low: float
    high: float
    n: int
    method: str


def exact(value: SupportsFloat, n: SupportsInt = 1) -> Estimate:
    """A computed number without sampling noise: its interval is the number itself."""
    number = float(value)
    return Estimate(number, number, number, int(n), "exact")


def mean_estimate(
    samples: ArrayLike,
    level: float = 0.95,
    *,
    bounds: tuple[float | int, float | int] | None = None,
) -> Estimate:
    """The mean of independent samples with Student's t interval.

    ``mean ± t_{n-1, (1+level)/2} · s / √n``, ``s`` with ``n - 1`` in the denominator; a single
    sample has no interval, and its ends are infinite.

    Equal samples have no spread to take an interval from. Between bounds ``a`` and ``b`` they have
    one all the same: of ``n`` replicates that all have the value ``c``, Wilson's share with it is
    ``w`` at least, and the others may have any value, so that the mean lies between
    ``w c + (1 - w) a`` and ``w c + (1 - w) b``. For shares that are all 0, or all 1, this is
    Wilson's interval itself.

    Args:
        samples: One number for each independent replicate, all finite.
        level: Coverage of the interval, in (0, 1).
        bounds: Least and greatest value that a sample can have, such as (0, 1) for shares.

    Raises:
        ValueError: If ``samples`` is empty or holds a number that is not finite, ``level`` is not
            in (0, 1), or a sample lies outside of ``bounds``.
    """
    numbers = _finite(samples)
    _check_level(level)
    if bounds is not None and not bounds[0] <= numbers.min() <= numbers.max() <= bounds[1]:
        raise ValueError(
            f"samples has values from {numbers.min()} to {numbers.max()}, must lie in "
            f"bounds={bounds}"
        )
    if bounds is not None and numbers.size > 1 and np.ptp(numbers) == 0:
        return _equal_estimate(float(numbers[0]), numbers.size, level, bounds)
    method = f"mean, t interval {level:.0%}"
    value = float(numbers.mean())
    if numbers.size == 1:
        return Estimate(value, -np.inf, np.inf, 1, method)
    from scipy import stats  # costs over a second: only when it is needed

    half = stats.t.ppf((1 + level) / 2, numbers.size - 1) * numbers.std(ddof=1)
    half = float(half / np.sqrt(numbers.size))
    return Estimate(value, value - half, value + half, int(numbers.size), method)


def _equal_estimate(
    value: float, n: int, level: float, bounds: tuple[float | int, float | int]
) -> Estimate:
    share = proportion_estimate(n, n, level).low
    low, high = (share * value + (1 - share) * end for end in bounds)
    return Estimate(value, low, high, n, f"mean of equal samples, Wilson {level:.0%}")


def proportion_estimate(
    successes: SupportsInt, n: SupportsInt, level: float = 0.95, method: str = "wilson"
) -> Estimate:
    """A proportion of independent trials with Wilson's (or Clopper-Pearson's exact) interval.

    Args:
        successes: Trials that succeeded, 0 to ``n``.
        n: Trials, at least 1.
        level: Coverage of the interval, in (0, 1).
        method: ``"wilson"`` (right on average) or ``"exact"`` (Clopper-Pearson, never too short).

    Raises:
        ValueError: If ``n`` is less than 1, ``successes`` is not in 0..n, ``level`` is not in
            (0, 1), or ``method`` is unknown.
    """
    count, trials = int(successes), int(n)
    check_range("n", trials, "[1, inf)")
    if not 0 <= count <= trials:
        raise ValueError(f"successes={count} must be between 0 and n={trials}")
    if method not in {"wilson", "exact"}:
        raise ValueError(f"method={method!r} must be 'wilson' or 'exact'")
    _check_level(level)
    from scipy import stats

    interval = stats.binomtest(count, trials).proportion_ci(level, method=method)
    name = {"wilson": "Wilson", "exact": "Clopper-Pearson"}[method]
    return Estimate(
        count / trials,
        float(interval.low),
        float(interval.high),
        trials,
        f"proportion, {name} {level:.0%}",
    )


def share_estimate(yes: ArrayLike, level: float = 0.95, method: str = "wilson") -> Estimate:
    """The share of independent replicates with a property, by `proportion_estimate`.

    Args:
        yes: One truth value for each replicate, at least one.
        level: Coverage of the interval, in (0, 1).
        method: ``"wilson"`` or ``"exact"``, as in `proportion_estimate`.
    """
    truths = np.asarray(yes, dtype=bool)
    return proportion_estimate(truths.sum(), truths.size, level, method)


def mean_of_finite(
    samples: ArrayLike,
    level: float = 0.95,
    *,
    bounds: tuple[float | int, float | int] | None = None,
) -> Estimate:
    """`mean_estimate` of the samples that are finite.

    Use it where a replicate may have no sample, such as a mean over events that it does not have.
    Leave out members that diverged beforehand, by `members.members_where`.

    Raises:
        ValueError: If no sample is finite, or one lies outside of ``bounds``.
    """
    numbers = np.asarray(samples, dtype=np.float64)
    return mean_estimate(numbers[np.isfinite(numbers)], level, bounds=bounds)


def geometric_estimate(logs: ArrayLike, level: float = 0.95) -> Estimate:
    """The geometric mean of positive samples, ``exp(mean(log x))``, and its interval.

    Args:
        logs: The natural logarithm of one sample for each independent replicate.
        level: Coverage of the interval, in (0, 1).
    """
    found = mean_estimate(logs, level)
    value, low, high = (float(np.exp(end)) for end in (found.value, found.low, found.high))
    return Estimate(value, low, high, found.n, "geometric " + found.method)


def finite_or_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values for JSON: numbers that are not finite become None."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in fields.items()
    }


def estimate_from_json(fields: Mapping[str, Any]) -> Estimate:
    """An estimate from plain values: a missing end is infinite, a missing value not a number."""
    ends = {"value": np.nan, "low": -np.inf, "high": np.inf}
    numbers = {name: end if fields[name] is None else fields[name] for name, end in ends.items()}
    return Estimate(**numbers, n=fields["n"], method=fields["method"])


def _finite(samples: ArrayLike) -> np.ndarray:
    numbers = np.asarray(samples, dtype=np.float64).ravel()
    if numbers.size == 0:
        raise ValueError("samples is empty, an estimate needs at least one")
    if not np.isfinite(numbers).all():
        bad = int((~np.isfinite(numbers)).sum())
        raise ValueError(
            f"samples holds {bad} numbers that are not finite; exclude diverged members by rule"
        )
    return numbers


def _check_level(level: float) -> None:
    check_range("level", level, "(0, 1)")


def difference_estimate(first: ArrayLike, second: ArrayLike, level: float = 0.95) -> Estimate:
    """``mean(first) - mean(second)`` of two independent groups, with Welch's interval.

    ``± t_{ν, (1+level)/2} sqrt(s₁²/n₁ + s₂²/n₂)``, ν by Welch and Satterthwaite; the groups may
    differ in size and in variance. For paired samples take `mean_estimate` of the differences.

    Args:
        first: One number for each independent replicate.
        second: Likewise; replicates share nothing with those of ``first``.
        level: Coverage of the interval, in (0, 1).

    Returns:
        The estimate; its ``n`` is the size of the smaller group.

    Raises:
        ValueError: As `mean_estimate`, for either group.
    """
    a, b = mean_estimate(first, level), mean_estimate(second, level)
    value, n = a.value - b.value, min(a.n, b.n)
    method = f"difference of means, Welch interval {level:.0%}"
    if n == 1:
        return Estimate(value, -np.inf, np.inf, n, method)
    errors = [float(np.var(np.asarray(x, float), ddof=1)) / np.size(x) for x in (first, second)]
    if sum(errors) == 0:
        return Estimate(value, value, value, n, method)
    from scipy import stats  # costs over a second: only when it is needed

    freedom = sum(errors) ** 2 / (errors[0] ** 2 / (a.n - 1) + errors[1] ** 2 / (b.n - 1))
    half = float(stats.t.ppf((1 + level) / 2, freedom) * np.sqrt(sum(errors)))
    return Estimate(value, value - half, value + half, n, method)


def ratio_estimate(first: ArrayLike, second: ArrayLike, level: float = 0.95) -> Estimate:
    """``mean(first) / mean(second)`` of two independent groups, with the noise of both.

    The logarithm of the ratio has the standard error ``sqrt(s₁²/(n₁ m₁²) + s₂²/(n₂ m₂²))``, and
    Welch's degrees of freedom.

    Args:
        first: One positive number for each independent replicate.
        second: Likewise; replicates share nothing with those of ``first``.
        level: Coverage of the interval, in (0, 1).

    Returns:
        The estimate; its ``n`` is the size of the smaller group.

    Raises:
        ValueError: As `mean_estimate`, for either group, or if a mean is not positive.
    """
    means = [mean_estimate(group, level).value for group in (first, second)]
    if min(means) <= 0:
        raise ValueError(f"means {means} must be positive, their ratio has a logarithm")
    above, below = (
        np.asarray(x, float).ravel() / m for x, m in zip((first, second), means, strict=True)
    )
    found = difference_estimate(above, below, level)
    ratio = means[0] / means[1]
    low, high = (float(ratio * np.exp(end)) for end in (found.low, found.high))
    return Estimate(ratio, low, high, found.n, f"ratio of means, Welch interval {level:.0%}")


def slope_estimate(x: ArrayLike, y: ArrayLike) -> Estimate:
    """The slope of y against x by least squares, with Student's 95 % interval over the residuals.

    ``slope ± t_{n-2, 0.975} s / sqrt(Σ (x - mean x)²)``, with ``s² = Σ residual² / (n - 2)``.

    Args:
        x: Where each point was measured; not all the same.
        y: One number for each point, of the same shape, at least three.

    Raises:
        ValueError: If there are fewer than three points, the shapes differ, or x does not vary.
    """
    at, values = np.asarray(x, float).ravel(), np.asarray(y, float).ravel()
    if at.shape != values.shape or at.size < 3:
        raise ValueError(
            f"x has {at.size} points and y {values.size}, both need the same, 3 or more"
        )
    centred = at - at.mean()
    if not centred.any():
        raise ValueError("x must hold two values or more that differ")
    slope = float(centred @ values / (centred @ centred))
    residual = values - values.mean() - slope * centred
    error = np.sqrt(residual @ residual / (len(at) - 2) / (centred @ centred))
    from scipy import stats  # costs over a second: only when it is needed

    half = float(stats.t.ppf(0.975, len(at) - 2) * error)
    return Estimate(slope, slope - half, slope + half, len(at), "least squares 95%")


def resampled_estimate(
    statistic: Callable[..., float],
    *sizes: int,
    n: int | None = None,
    level: float = 0.95,
    seed: int = 0,
    n_resamples: int = 999,
) -> Estimate:
    """A statistic of independent units with its percentile interval over resampled units.

    The units of each group are drawn with replacement, each group by itself, and the statistic is
    taken of what was drawn; the interval lies between its ``(1 ± level) / 2`` quantiles, and always
    holds the value itself. A best of ten networks is such a statistic: resampling the ten says how
    much depends on which ten were trained.

    Args:
        statistic: Function of one array of unit numbers for each group, of its size; nan where
            what was drawn has no such number, which leaves that resample out.
        sizes: Units of each group, each at least 1; with a group of one there is no interval, and
            its ends are infinite.
        n: Independent replicates to report; all units of all groups when None.
        level: Coverage of the interval, in (0, 1).
        seed: Seed of the resampling, so that the same units give the same interval.
        n_resamples: Resamples drawn, at least 100.

    Raises:
        ValueError: If there is no group, a group has no unit, ``level`` is not in (0, 1), or
            ``n_resamples`` is less than 100.
    """
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes={sizes} must name groups of 1 unit or more")
    check_range("level", level, "(0, 1)")
    check_range("n_resamples", n_resamples, "[100, inf)")
    rng = np.random.default_rng(seed)
    value = float(statistic(*(np.arange(size) for size in sizes)))
    count = sum(sizes) if n is None else n
    method = f"bootstrap over units {level:.0%}"
    if min(sizes) == 1:
        return Estimate(value, -np.inf, np.inf, count, method)
    drawn = [
        float(statistic(*(rng.integers(size, size=size) for size in sizes)))
        for _ in range(n_resamples)
    ]
    draws = [number for number in drawn if not np.isnan(number)] or [np.nan]
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    low, high = min(float(low), value), max(float(high), value)
    return Estimate(value, low, high, count, method)


def best_estimate(
    losses: ArrayLike, values: ArrayLike, over: Callable[[np.ndarray], float] = np.mean
) -> Estimate:
    """The value of the replicate with the least loss, and its spread over sets of replicates.

    With several cells, each has a best replicate of its own, and replicates are drawn for all cells
    together: those of one number share their data. A replicate that diverged is never the best, and
    does not count: n is that of the cell in which the fewest have a finite loss. With one of them
    there is no interval, and its ends are infinite; with none there is no best, and the value is
    nan.

    Args:
        losses: ``[replicate, *cells]``; resamples without a finite one in a cell are left out.
        values: A number of each replicate in each cell, of the same shape.
        over: Function of the numbers of the best in all cells, nan where one of them is.

    Raises:
        ValueError: If the shapes differ or there is no replicate.

    Source: toy-models paper, which looks at the model of the lowest loss of several restarts.
    """
    loss, numbers = np.asarray(losses, float), np.asarray(values, float)
    if loss.shape != numbers.shape or not loss.size:
        raise ValueError(f"values has shape {numbers.shape}, must have that of losses {loss.shape}")
    finite = np.isfinite(loss)
    loss, fewest = np.where(finite, loss, np.inf), int(finite.sum(axis=0).min())
    if not fewest:
        bare = int((~finite).all(axis=0).sum())
        method = f"no best: no finite loss in {bare} of {loss[0].size} cells"
        return Estimate(np.nan, -np.inf, np.inf, 0, method)

    cells = loss.shape[1:]
    loss, numbers = (x.reshape(len(x), -1) for x in (loss, numbers))
    diverged, column = not finite.all(), np.arange(loss.shape[1])

    def of(chosen: np.ndarray) -> float:
        drawn = loss[chosen]
        if diverged and np.isinf(drawn).all(axis=0).any():
            return np.nan
        best = chosen[drawn.argmin(axis=0)]
        return float(over(numbers[best, column].reshape(cells)))

    found = resampled_estimate(of, len(loss), n=fewest)
    return found if fewest > 1 else found._replace(low=-np.inf, high=np.inf)
