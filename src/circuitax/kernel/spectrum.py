"""Trace, eigenvalues, norms and singular values of a chain, from its narrow factors alone.

A cyclic shift, ``F_1 F_2 … F_n → F_i … F_n F_1 … F_{i-1}``, keeps the trace and the non-zero
eigenvalues and changes norms and singular values. The published library behind the framework
paper's first composition diagram shifted inside a Frobenius norm. Here the shifted product has a
type of its own, :class:`Cycle`, which norms and singular values do not accept.

Norms, singular values and ratios of them first divide every factor by a power of two
(`linalg.scaled_to_one`), so that weights of any size, and of half precision, are read correctly.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Complex, Float

from circuitax.kernel import linalg
from circuitax.kernel.chain import Chain, cheapest, multiply
from circuitax.kernel.checks import check_range
from circuitax.kernel.linalg import safe_sqrt, scaled_to_one


class Cycle(NamedTuple):
    """A square product known up to a cyclic shift: only its eigenvalues and powers are defined."""

    core: Float[Array, "*batch rank rank"]


def cyclic(chain: Chain) -> Cycle:
    """The chain's product, shifted to start and end at its narrowest dimension."""
    _require_square(chain)
    start = min(range(len(chain.factors)), key=chain.dims.__getitem__)
    return Cycle(multiply(chain.factors[start:] + chain.factors[:start]))


def trace(chain: Chain) -> Float[Array, "*batch"]:
    """``tr(F_1 … F_n) = Σ λ_i``, in the cheapest cyclic order, without the last product."""
    _require_square(chain)
    factors, n = chain.factors, len(chain.factors)
    if n == 1:
        return jnp.trace(factors[0], axis1=-2, axis2=-1)
    # The trace is a ring of factors; two cuts leave X and Y with tr(X Y) = Σ_ij X_ij Y_ji.
    ring = factors + factors
    plan = cheapest(tuple(factor.shape for factor in ring))
    heads = math.prod(chain.shape[:-2])
    _, i, j = min(
        (plan(i, j)[0] + plan(j, i + n)[0] + heads * ring[i].shape[-2] * ring[j].shape[-2], i, j)
        for i in range(n)
        for j in range(i + 1, i + n)
    )
    return jnp.einsum("...ij,...ji->...", multiply(ring[i:j]), multiply(ring[j : i + n]))


def eigenvalues(cycle: Cycle) -> Complex[Array, "*batch rank"]:
    """The eigenvalues of the narrow core, in no particular order."""
    return linalg.eigenvalues(cycle.core)


def power_sums(cycle: Cycle, n: int) -> Float[Array, "*batch n"]:
    """``[tr M, tr M², …, tr Mⁿ] = [Σ λ, Σ λ², …, Σ λⁿ]``, differentiable on every device.

    ``power_sums(cyclic(m.T @ m), n)`` gives the sums of powers of the squared singular values.
    """
    check_range("n", n, "[1, inf)")
    power, sums = cycle.core, []
    for _ in range(n):
        sums.append(jnp.trace(power, axis1=-2, axis2=-1))
        power = power @ cycle.core
    return jnp.stack(sums, axis=-1)


def inner(x: Chain, y: Chain) -> Float[Array, "*batch"]:
    """``⟨X, Y⟩ = tr(Xᵀ Y) = Σ_ij X_ij Y_ij`` of two chains of equal outer shape."""
    if x.shape[-2:] != y.shape[-2:]:
        raise ValueError(f"y has shape {y.shape[-2:]}; it must match x, {x.shape[-2:]}")
    return trace(x.T @ y)


def norm(chain: Chain) -> Float[Array, "*batch"]:
    """Frobenius norm through Gram matrices of the ends; gradient 0 at M = 0.

    ``‖L C R‖² = Σ (LᵀL C) ∘ (C RRᵀ)``, cut where it is cheapest, so that the core C between two
    heads is multiplied once and the Gram of a shared embedding once for all heads.

    The squared norm is exact to about ``eps · Π ‖F_i‖²``, which matters only where the
    factors nearly annihilate each other; :func:`singular_values` is exact there too.
    """
    scaled, size = _scaled(chain)
    return size * _norm(scaled)


def unit_factors(chain: Chain) -> Chain:
    """The chain up to a positive number: the largest |entry| of every factor is in [1/2, 1)."""
    return _scaled(chain)[0]


def _scaled(chain: Chain) -> tuple[Chain, Float[Array, "*batch"]]:
    """`unit_factors`, and the scalar ratio of the chain to their product."""
    factors, sizes = zip(*map(scaled_to_one, chain.factors), strict=True)
    return Chain(factors), jnp.prod(jnp.stack(jnp.broadcast_arrays(*sizes)), axis=0)


def _norm(chain: Chain) -> Float[Array, "*batch"]:
    forth, back, n = chain.factors, chain.T.factors, len(chain.factors)
    i, j = _norm_cuts(chain)
    left = multiply((back + forth)[n - i : n + i]) if i else None
    right = multiply((forth + back)[j : 2 * n - j]) if j < n else None
    if i == j:
        x, y = left, right
    else:
        core = multiply(forth[i:j])
        x = core if left is None else left @ core
        y = core if right is None else core @ right
    return safe_sqrt(jnp.einsum("...ij,...ij->...", x, y))


def singular_values(chain: Chain) -> Float[Array, "*batch rank"]:
    """Singular values in falling order, by QR of the two thin halves and one small SVD."""
    chain, size = _scaled(chain)
    left, right = (multiply(side.factors) for side in _narrow_sides(chain))
    r_left = linalg.triangle(left)
    r_right = linalg.triangle(jnp.matrix_transpose(right))
    return size[..., None] * linalg.singular(r_left @ jnp.matrix_transpose(r_right))


def gram_singular_values(chain: Chain) -> Float[Array, "*batch rank"]:
    """Singular values from the Gram matrices of the halves: cheap at ``d_vocab × d_vocab``.

    The vocabulary-sized Grams of unbatched factors are computed once for all heads, and no
    ``[d_vocab, rank]`` array is made for each head. The price is that values below about ``√eps``
    of the largest are noise (3e-4 in float32), and that gradients need distinct Gram eigenvalues.
    """
    chain, size = _scaled(chain)
    left, right = _narrow_sides(chain)
    grams = [multiply((side.T @ side).factors) for side in (left, right.T)]
    # Cholesky would fail: a rank-deficient Gram has a root, but no such factor.
    values, vectors = linalg.symmetric_eigen(jnp.stack(jnp.broadcast_arrays(*grams)))
    roots = safe_sqrt(values)[..., :, None] * jnp.matrix_transpose(vectors)
    values = linalg.singular(roots[0] @ jnp.matrix_transpose(roots[1]))
    return size[..., None] * values


def _norm_cuts(chain: Chain) -> tuple[int, int]:
    """The cheapest ``i ≤ j`` with L = F_1 … F_i and R = F_{j+1} … F_n, counted in products."""
    shapes = tuple(factor.shape for factor in chain.factors)
    turned = tuple(factor.shape for factor in chain.T.factors)
    n, heads = len(shapes), math.prod(chain.shape[:-2])
    left_gram, right_gram = cheapest(turned + shapes), cheapest(shapes + turned)

    def cost(i: int, j: int) -> int:
        a, b = chain.dims[i], chain.dims[j]
        total = left_gram(n - i, n + i)[0] if i else 0
        total += right_gram(j, 2 * n - j)[0] if j < n else 0
        if i == j:
            return total + heads * a * b
        total += right_gram(i, j)[0]
        return total + heads * a * b * (1 + (a if i else 0) + (b if j < n else 0))

    cuts = ((i, j) for i in range(n + 1) for j in range(i, n + 1) if not i == j in (0, n))
    return min(cuts, key=lambda cut: cost(*cut))


def _narrow_sides(chain: Chain) -> tuple[Chain, Chain]:
    """Two chains ``L, R`` with M = L R, cut at the narrowest dimension, outer ones included."""
    cut = min(range(len(chain.dims)), key=chain.dims.__getitem__)
    eye = jnp.eye(chain.dims[cut], dtype=chain.factors[0].dtype)
    if cut == 0:
        return Chain((eye,)), chain
    if cut == len(chain.factors):
        return chain, Chain((eye,))
    return Chain(chain.factors[:cut]), Chain(chain.factors[cut:])


def _require_square(chain: Chain) -> None:
    if chain.dims[0] != chain.dims[-1]:
        raise ValueError(
            f"chain has shape {chain.shape}, must be square to have a trace and eigenvalues; "
            "singular_values takes any"
        )
