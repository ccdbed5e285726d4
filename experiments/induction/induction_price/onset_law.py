"""A power law of times to an event, fitted with trials that ended before the event came."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.stats import norm


class OnsetLaw(NamedTuple):
    """``median time = price · share^-exponent``, with log-normal scatter around it.

    Attributes:
        spread: Standard deviation of the logarithm of a time.
    """

    price: float
    exponent: float
    spread: float

    def at(self, share: float | np.ndarray) -> np.ndarray:
        """The median time at a share."""
        return np.asarray(self.price * np.asarray(share, float) ** -self.exponent)


def first_crossing(times: ArrayLike, curve: ArrayLike, threshold: float) -> np.ndarray:
    """First crossings of a threshold by curves, by linear interpolation; NaN where there is none.

    Args:
        times: Increasing, one for each measurement.
        curve: ``[..., time]``.
        threshold: What is to be reached.
    """
    at, values = np.asarray(times, float), np.asarray(curve, float)
    above = values >= threshold
    first = above.argmax(axis=-1)[..., None]
    high, low = (np.take_along_axis(values, np.maximum(first - k, 0), -1)[..., 0] for k in (0, 1))
    start, end = at[np.maximum(first - 1, 0)][..., 0], at[first][..., 0]
    rise = np.where(high > low, high - low, 1)
    share = np.where(first[..., 0] > 0, (threshold - low) / rise, 1)
    return np.where(above.any(axis=-1), start + share * (end - start), np.nan)


def fitted_onsets(shares: ArrayLike, times: ArrayLike, last: float) -> OnsetLaw:
    """The most likely law; a trial without the event counts as one that takes longer than ``last``.

    The logarithm of a time is normal around a straight line in the logarithm of the share, and a
    trial that was censored has the likelihood of all longer times. Leaving such trials out, or
    taking ``last`` for their time, would make the event seem cheaper than it is.

    Args:
        shares: One for each trial, positive, at least two different ones among those with a time.
        times: Time of the event, positive; NaN where it had not come by ``last``.
        last: Length of every trial.

    Raises:
        ValueError: If shapes differ, a share or time is not positive, or fewer than three trials
            at fewer than two shares had the event.
    """
    at, found = np.asarray(shares, float).ravel(), np.asarray(times, float).ravel()
    if at.shape != found.shape:
        raise ValueError(f"shares has {at.size} trials and times {found.size}: both need the same")
    if not (at > 0).all() or not (found[np.isfinite(found)] > 0).all():
        raise ValueError("shares and times must be positive")
    seen = np.isfinite(found)
    if seen.sum() < 3 or len(np.unique(at[seen])) < 2:
        raise ValueError(
            f"{seen.sum()} trials at {len(np.unique(at[seen]))} shares had the event, "
            "a law needs three or more at two or more"
        )
    x, y = -np.log(at), np.log(np.where(seen, found, last))
    begin = np.polyfit(x[seen], y[seen], 1)
    spread = max(float(np.std(y[seen] - np.polyval(begin, x[seen]))), 1e-2)

    def cost(law: np.ndarray) -> tuple[float, np.ndarray]:
        # Minus the log-likelihood and its gradient in (intercept, exponent, log spread).
        z = (y - law[0] - law[1] * x) / np.exp(law[2])
        hazard = np.exp(norm.logpdf(z) - norm.logsf(z))
        pull = np.where(seen, z, hazard)  # minus d log-likelihood / d z
        value = np.where(seen, z**2 / 2 + law[2], -norm.logsf(z)).sum()
        slopes = [-pull.sum(), -(pull * x).sum()]
        return float(value), np.array(
            [slope / np.exp(law[2]) for slope in slopes] + [float((seen - pull * z).sum())]
        )

    start = np.array([begin[1], begin[0], np.log(spread)])
    # A perfect line would drive the spread to 0.
    bounds = [(None, None), (None, None), (np.log(1e-3), None)]
    best = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return OnsetLaw(float(np.exp(best[0])), float(best[1]), float(np.exp(best[2])))
