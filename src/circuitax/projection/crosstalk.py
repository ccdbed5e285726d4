"""Success rate of threshold read-outs of k superposed random directions, without JAX."""

import numpy as np
from scipy import special

# Enough for the smooth integrand below: doubling it moves no digit that is printed.
_NODES = 64


def sphere_success(n_features: int, dim: int, n_active: int, threshold: float = 0.5) -> float:
    r"""Probability that all N read-outs of k active random unit directions are right.

    Given the length of the state ``h = Σ v_i``, the N - k inactive read-outs are independent, and
    each is ``|h| t`` with t the coordinate of a random point of the sphere: ``P(t > x) =
    ½ I_{1-x²}((m-1)/2, ½)``. The length is shared by all of them and varies, ``|h|² ≈ N(k,
    2 k (k-1) / m)``, so that errors come together and whole read-outs succeed more often than
    independent Gaussian crosstalk of variance k/m allows. An active read-out is
    ``1 + N(0, (k-1)/m)``.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    spread = np.sqrt(2 * n_active * (n_active - 1) / dim)
    squared = np.maximum(n_active + spread * nodes, threshold**2)
    missed = special.ndtr(-(1 - threshold) * np.sqrt(dim / max(n_active - 1, 1e-9)))
    invented = special.betainc((dim - 1) / 2, 0.5, 1 - threshold**2 / squared) / 2
    clean = np.exp((n_features - n_active) * np.log1p(-invented))
    return float(weights @ clean / weights.sum() * (1 - missed) ** n_active)
