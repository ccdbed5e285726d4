"""Draws of a null from samples: the labels of two groups, or of two sides, drawn anew."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import Estimate, mean_estimate

# At 2.5 % expected, this many tell from 5 %.
DRAWS = 1000


def exchanged(
    differences: Mapping[str, ArrayLike], n_draws: int = DRAWS, seed: int = 0
) -> dict[str, list[Estimate]]:
    """Means of paired differences whose two sides are exchanged at random in each replicate.

    ``mean_i(s_i d_i)`` with fair signs ``s_i``, the null of a paired test by permutation.

    Args:
        differences: One difference for each replicate, by the quantity that is their mean.
        n_draws: Draws of each quantity, at least 1.
        seed: Seed of the signs.

    Raises:
        ValueError: As `mean_estimate`.
    """
    rng = np.random.default_rng(seed)
    found = {}
    for name, values in differences.items():
        each = np.asarray(values, float).ravel()
        signs = rng.choice([-1.0, 1.0], size=(n_draws, each.size))
        found[name] = [mean_estimate(row * each) for row in signs]
    return found


def regrouped(
    first: ArrayLike,
    second: ArrayLike,
    compare: Callable[..., Estimate] = difference_estimate,
    n_draws: int = DRAWS,
    seed: int = 0,
) -> list[Estimate]:
    """Comparisons of two groups of equal means whose replicates are shuffled between them.

    Each group is shifted to the mean of all before, so that its spread stays and the difference
    does not: shuffled as they are, two groups far apart would make one of two peaks, for which an
    interval of a mean is too short.

    Args:
        first: One number for each replicate of one group.
        second: Likewise of the other.
        compare: Estimate of the comparison, such as `difference_estimate`.
        n_draws: Draws, at least 1.
        seed: Seed of the permutations.

    Raises:
        ValueError: If a group is empty, or as ``compare``.
    """
    one, two = (np.asarray(group, float).ravel() for group in (first, second))
    if not one.size or not two.size:
        raise ValueError(f"groups of {one.size} and {two.size} replicates must not be empty")
    middle, rng = np.concatenate([one, two]).mean(), np.random.default_rng(seed)
    pool = middle + np.concatenate([one - one.mean(), two - two.mean()])
    mixed = (rng.permutation(pool) for _ in range(n_draws))
    return [compare(drawn[: one.size], drawn[one.size :]) for drawn in mixed]
