"""Learning curve of a loss over training tokens: a power law towards a limit."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

# Beyond these an exponent cannot be told from a straight line in log tokens, or from a step.
EXPONENTS = (0.02, 4.0)


class LearningLaw(NamedTuple):
    """``loss = limit + gain (tokens / last)^-exponent``, where ``last`` is the longest training."""

    limit: float
    gain: float
    exponent: float
    last: float

    def at(self, tokens: ArrayLike) -> np.ndarray:
        """The predicted loss, nats."""
        share = np.asarray(tokens, float) / self.last
        return np.asarray(self.limit + self.gain * share**-self.exponent)

    @property
    def next_doubling(self) -> float:
        """The predicted gain of twice the tokens beyond the longest training, nats."""
        return self.gain * (1 - 2**-self.exponent)


def fitted_law(tokens: ArrayLike, losses: ArrayLike) -> LearningLaw:
    """The least-squares law of some losses, with a gain of 0 or more.

    For a given exponent the law is linear in the other two numbers, so that the fit is a search
    over the exponent alone, within `EXPONENTS`.

    Args:
        tokens: Length of each training, positive, at least three different ones.
        losses: What each ended at, nats.

    Raises:
        ValueError: If there are fewer than three lengths, or not one loss for each.
    """
    x, y = np.asarray(tokens, float), np.asarray(losses, float)
    if x.shape != y.shape or len(np.unique(x)) < 3:
        raise ValueError(
            f"tokens has shape {x.shape} with {len(np.unique(x))} different lengths, must have at "
            f"least three and the shape of losses, {y.shape}"
        )
    last = x.max()

    def linear(exponent: float) -> tuple[float, float, float]:
        power = (x / last) ** -exponent
        centred = power - power.mean()
        gain = max(float(centred @ y / (centred @ centred)), 0.0)
        limit = float(y.mean() - gain * power.mean())
        return float(((limit + gain * power - y) ** 2).sum()), limit, gain

    # On a grid first: the error may have several valleys.
    grid = np.geomspace(*EXPONENTS, 60)
    best = int(np.argmin([linear(float(exponent))[0] for exponent in grid]))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    exponent = float(minimize_scalar(lambda e: linear(e)[0], bounds=ends, method="bounded").x)
    _, limit, gain = linear(exponent)
    return LearningLaw(limit, gain, exponent, float(last))
