"""Stability of ignoring the last of two features, in closed form.

At ``W = (1, -kappa)``, ``b = (kappa beta, p/2)`` with small ``kappa > 0`` the second output's error
is ``v (1 - kappa^2)``, ``v = p/3 - p^2/4``, and the first one's is ``kappa^2 m``, where

    m = min over beta in [0, 1] of
        (q^2 + p/4) beta^2 + (p q/3) beta^3 - (p^2/4) beta + p^2/3 - 3 p^3/16

after the best change of ``w_1``, both up to higher orders. So the feature is ignored as long as
``r v < m``.
"""

import numpy as np
from numpy.typing import ArrayLike

from circuitax.kernel.checks import check_range


def ignoring_limit(density: ArrayLike) -> np.ndarray:
    """The importance ``m/v`` above which an antipodal last feature of small norm lowers the loss.

    Source: second order expansion of the exact loss, ours.
    """
    check_range("density", density, "(0, 1]")
    p, q = np.asarray(density, float), 1 - np.asarray(density, float)
    # The root of m's derivative p q beta^2 + 2 c beta - p^2/4 = 0, without cancellation at q = 0.
    c = q**2 + p / 4
    beta = p**2 / 4 / (c + np.sqrt(c**2 + p**3 * q / 4))
    m = c * beta**2 + p * q / 3 * beta**3 - p**2 / 4 * beta + p**2 / 3 - 3 * p**3 / 16
    return np.asarray(m / (p / 3 - p**2 / 4))
