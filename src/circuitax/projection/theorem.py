"""Theorem 27 and Corollary 28 of S0: printed and proved versions, breaches, and tests of them.

Both are statements of "Some Structures in Transformer Architectures" (Menon 2025); E10 is a row of
docs/errata.md on the corollary.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from circuitax.projection.distortion import Measure, distortion
from circuitax.projection.laws import check_epsilon
from circuitax.projection.maps import MapSpec, project
from circuitax.projection.stream import Stream, summarise


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
    unit = points / jnp.asarray(norms, points.dtype)[:, None]
    return jnp.concatenate([jnp.zeros_like(unit[:1]), unit])


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
    r = norm_ratio
    cosine = epsilon * (r * r + 1) / (2 * r)
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
    cosine = 1 - 2 / (1 + epsilon) ** 2
    x = np.array([1.0, 0.0])
    y = np.array([cosine, np.sqrt(1 - cosine**2)])
    # f(x) = e_1, f(y) = −e_1: solve for the images of the basis.
    second = (-1 - cosine) / y[1]
    matrix = np.array([[1.0, 0.0], [second, 0.0]])
    return Counterexample(np.stack([np.zeros(2), x, y]), matrix, x, y)


# Points are arguments of the compiled functions, because XLA would fold the products of a constant.
# Distinct points that a float32 Gram matrix cannot tell apart are refused, not resolved.
_pass = functools.partial(distortion, n_bins=0, near_capacity=0)


class Corollary(NamedTuple):
    """Corollary 28 on every map, at the map's own ε."""

    epsilon: Float[np.ndarray, " n_maps"]  # kept on the unit points and 0
    inner: Int[np.ndarray, " n_maps"]  # pairs past 3ε
    cosine: Int[np.ndarray, " n_maps"]  # pairs past 4ε/(1 − ε)
    inner_share: Float[np.ndarray, " n_maps"]  # worst error over 3ε
    cosine_share: Float[np.ndarray, " n_maps"]


def failing_maps(
    keys: Key[Array, " n_maps"],
    points: Float[Array, "n_points dim_in"],
    spec: MapSpec,
    bounds: tuple[Bounds, ...],
) -> Bool[np.ndarray, "n_maps n_bounds"]:
    """Whether some pair of the cloud leaves each interval, for each map."""
    edges = jnp.array(bounds) - 1

    @jax.jit
    def count(keys: Key[Array, " n_maps"], points: Float[Array, "n d"]) -> Stream:
        return jax.lax.map(lambda k: _pass(points, project(k, points, spec), edges), keys)

    found = summarise(count(keys, points), require_distinct=True)
    return np.asarray(found.below + found.above > 0)


def corollary_28(
    keys: Key[Array, " n_maps"], points: Float[Array, "n_points dim_in"], spec: MapSpec
) -> Corollary:
    """Corollary 28 under its corrected hypothesis (E10), on each map at its own ε."""
    unit = cosine_hypothesis(points)
    none = jnp.zeros((0, 2), points.dtype)

    @jax.jit
    def kept(keys: Key[Array, " n_maps"], unit: Float[Array, "n d"]) -> Stream:
        return jax.lax.map(lambda k: _pass(unit, project(k, unit, spec), none), keys)

    found = summarise(kept(keys, unit), require_distinct=True)
    epsilon = np.maximum(found.high, -found.low)
    limits = np.array([[inner_product_bound(e), cosine_bound(e)] for e in epsilon])

    def beyond(
        points: Float[Array, "n d"], key: Key[Array, ""], measure: Measure, limit: Float[Array, ""]
    ) -> Stream:
        edges = jnp.stack([-limit, limit])[None]
        images = project(key, points, spec)
        return _pass(points, images, edges, measure=measure)

    @jax.jit
    def both(
        keys: Key[Array, " n_maps"],
        limits: Float[Array, "n_maps 2"],
        unit: Float[Array, "n d"],
        points: Float[Array, "n d"],
    ) -> tuple[Stream, Stream]:
        return jax.lax.map(
            lambda at: (
                beyond(unit, at[0], Measure.inner, at[1][0]),
                beyond(points, at[0], Measure.cosine, at[1][1]),
            ),
            (keys, limits),
        )

    bounds = jnp.asarray(limits, points.dtype)
    inner, cosine = map(summarise, both(keys, bounds, unit[1:], points))
    worst = [np.maximum(s.high, -s.low) for s in (inner, cosine)]
    return Corollary(
        epsilon,
        (inner.below + inner.above)[:, 0],
        (cosine.below + cosine.above)[:, 0],
        worst[0] / limits[:, 0],
        worst[1] / limits[:, 1],
    )
