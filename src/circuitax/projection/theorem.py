"""Theorem 27 and Corollary 28 of S0: the printed and the proved versions, and their differences.

S0 is the document "Some Structures in Transformer Architectures" (Menon 2025);
E8, E9 and E10 are rows of docs/errata.md.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from circuitax.projection.tails import check_epsilon


class Bounds(NamedTuple):
    """The allowed interval of a ratio of squared distances."""

    low: float
    high: float


def statement_bounds(epsilon: float) -> Bounds:
    """``1 − ε ≤ ‖f(x) − f(y)‖² / ‖x − y‖² ≤ 1 + ε``: the statement, kept by entries ±1/√m.

    Source: S0 Theorem 27.
    """
    check_epsilon(epsilon)
    return Bounds(1 - epsilon, 1 + epsilon)


def proof_bounds(epsilon: float) -> Bounds:
    """``1 ≤ ‖f(x) − f(y)‖² / ‖x − y‖² ≤ (1 + ε)²``: what the proof shows for ±√((1+ε)/m).

    The mean of the ratio is ``1 + ε``, the upper edge of the statement, so the statement fails for
    about half of all pairs (E8). Dividing f by ``√(1 + ε)`` moves the mean to 1.

    Source: S0 Theorem 27, proof, last display (squared).
    """
    check_epsilon(epsilon)
    return Bounds(1.0, (1 + epsilon) ** 2)


def two_sided_bounds(epsilon: float) -> Bounds:
    """``(1 ± ε/2)(1 + ε)``: the event whose union bound the proof takes, with the absolute value.

    The printed ``Pr[‖u‖² − (1+ε)‖z‖² > ...]`` leaves the lower side out (E9).

    Source: S0 Theorem 27, proof.
    """
    check_epsilon(epsilon)
    return Bounds((1 - epsilon / 2) * (1 + epsilon), (1 + epsilon / 2) * (1 + epsilon))


def inner_product_bound(epsilon: float) -> float:
    """``|⟨f(x), f(y)⟩ − ⟨x, y⟩| ≤ 3ε`` for unit x, y, if f keeps ``{0, x, y}`` within 1 ± ε.

    Differs: S0 takes the norms from the theorem, which speaks of pairs of Z only; so 0 must be in Z
        (E10).
    Source: S0 Corollary 28.
    """
    check_epsilon(epsilon)
    return 3 * epsilon


def cosine_bound(epsilon: float) -> float:
    """``|cos θ_f − cos θ| ≤ 4ε/(1 − ε)``, if f keeps the *normalised* points and 0 within 1 ± ε.

    Differs: S0 says that the general case follows by normalising; it does when the normalised
        points are those whose distances are kept, and fails otherwise (E10).
    Source: S0 Corollary 28.
    """
    check_epsilon(epsilon)
    return 4 * epsilon / (1 - epsilon)


def cosine_hypothesis(points: Float[Array, "n_points dim"]) -> Float[Array, "n_plus_1 dim"]:
    """The set on which f must keep distances for Corollary 28: normalised points, and 0 first."""
    norms = np.linalg.norm(np.asarray(points, np.float64), axis=1)
    if not (norms > 0).all():
        raise ValueError(
            f"points must be finite and non-zero to have an angle; rows "
            f"{np.flatnonzero(~(norms > 0)).tolist()} are not"
        )
    unit = points / jnp.asarray(norms, points.dtype)[:, None]
    return jnp.concatenate([jnp.zeros_like(unit[:1]), unit])


def distance_ratios(
    points: Float[np.ndarray, "n dim_in"], images: Float[np.ndarray, "n dim_out"]
) -> Float[np.ndarray, " n_pairs"]:
    """All ``‖f(x) − f(y)‖² / ‖x − y‖²`` of a small set, in float64, for hypotheses."""
    x, y = np.asarray(points, np.float64), np.asarray(images, np.float64)
    if len(x) > 2000:
        raise ValueError(f"points has {len(x)} rows; above 2000 use `distortion`")
    i, j = np.triu_indices(len(x), 1)
    before = ((x[i] - x[j]) ** 2).sum(1)
    if not (before > 0).all():
        raise ValueError(
            f"points must be finite and distinct; {int((~(before > 0)).sum())} pairs are not"
        )
    return np.asarray(((y[i] - y[j]) ** 2).sum(1) / before)
