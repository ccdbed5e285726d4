"""Linear maps that satisfy a printed hypothesis of S0 and break its printed conclusion.

S0 is the document "Some Structures in Transformer Architectures" (Menon 2025);
E8 and E10 are rows of docs/errata.md on its Theorem 27 and Corollary 28.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from circuitax.projection.tails import check_epsilon


class Counterexample(NamedTuple):
    """Points Z as rows, a linear map P (rows: ``z @ P``), and the pair that breaks the bound."""

    points: Float[np.ndarray, "n_points 2"]
    matrix: Float[np.ndarray, "2 2"]
    x: Float[np.ndarray, "2"]
    y: Float[np.ndarray, "2"]

    def inner_error(self) -> float:
        """``|⟨f(x), f(y)⟩ − ⟨x, y⟩|``."""
        return float(abs(self.x @ self.matrix @ (self.y @ self.matrix) - self.x @ self.y))

    def cosine_error(self) -> float:
        """``|cos θ_f − cos θ|``."""
        u, v = self.x @ self.matrix, self.y @ self.matrix
        before = self.x @ self.y / np.sqrt(self.x @ self.x * (self.y @ self.y))
        return float(abs(u @ v / np.sqrt(u @ u * (v @ v)) - before))


def without_origin() -> Counterexample:
    """Z = {x, y} is orthonormal and does not hold 0: f keeps ``x − y`` and sends ``x + y`` to 0."""
    x, y = np.eye(2)
    along = (x - y) / np.sqrt(2)
    return Counterexample(np.stack([x, y]), np.outer(along, along), x, y)


def unequal_norms(norm_ratio: float = 15.0, epsilon: float = 0.1) -> Counterexample:
    """Z = {0, x, y} with x ⊥ y and large ``‖x‖ / ‖y‖``: f keeps both norms and shrinks ``x − y``.

    With ``‖f(x)‖ = r``, ``‖f(y)‖ = 1`` and ``‖f(x) − f(y)‖² = (1 − ε)(r² + 1)`` the cosine moves by
    ``ε (r² + 1) / (2 r)``: 0.753 at r = 15, ε = 0.1, where the printed bound is 0.444 (E10).
    """
    check_epsilon(epsilon)
    r = norm_ratio
    cosine = epsilon * (r * r + 1) / (2 * r)
    if not (r >= 1 and cosine <= 1):
        raise ValueError(
            f"norm_ratio={r} must be at least 1 with epsilon * (r² + 1) <= 2 r, epsilon={epsilon}"
        )
    x, y = r * np.eye(2)[0], np.eye(2)[1]
    # Rows are the images of e_1 and e_2: unit vectors at the required angle.
    matrix = np.array([[1.0, 0.0], [cosine, np.sqrt(1 - cosine**2)]])
    return Counterexample(np.stack([np.zeros(2), x, y]), matrix, x, y)


def proof_map_products(epsilon: float = 0.1) -> Counterexample:
    """Unit x, y and 0: f keeps the *proof's* bounds ``[1, (1+ε)²]`` and breaks 3ε (E8).

    ``‖f(x)‖ = ‖f(y)‖ = 1``, ``f(y) = −f(x)`` and ``‖x − y‖ = 2/(1 + ε)``: the inner product moves
    by ``2 − 2/(1+ε)²``, which exceeds 3ε for ε below ``(√28 − 4)/6 ≈ 0.215`` (0.347 against 0.3 at
    ε = 0.1). After division by ``√(1 + ε)`` the map keeps ``1 ± ε`` and the bound holds.
    """
    if not 0 < epsilon < (np.sqrt(28) - 4) / 6:
        raise ValueError(f"epsilon={epsilon} must be in (0, 0.215)")
    cosine = 1 - 2 / (1 + epsilon) ** 2
    x = np.array([1.0, 0.0])
    y = np.array([cosine, np.sqrt(1 - cosine**2)])
    # f(x) = e_1, f(y) = −e_1: solve for the images of the basis.
    second = (-1 - cosine) / y[1]
    matrix = np.array([[1.0, 0.0], [second, 0.0]])
    return Counterexample(np.stack([np.zeros(2), x, y]), matrix, x, y)
