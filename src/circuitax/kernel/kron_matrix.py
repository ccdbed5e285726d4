"""The matrix of a Kronecker operator: dense, or its trace, inner product and norm without it.

Sources (docs/bibliography.md): S0 is "Some Structures in Transformer Architectures" and S3 the
Kronecker note.
"""

import functools
import itertools
from collections.abc import Iterable

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from circuitax.kernel import spectrum
from circuitax.kernel.chain import DENSE_LIMIT, Chain, check_dense_size
from circuitax.kernel.kron import Kron, KronSum, matrices, terms
from circuitax.kernel.linalg import safe_sqrt
from circuitax.kernel.products import multiply


def trace(
    operator: Kron | KronSum, *, n_ctx: int | None = None, d_model: int | None = None
) -> Float[Array, "*batch"]:
    """``tr(A ⊗ W) = tr A · tr W``, summed over terms."""
    return _total(
        _trace(term.A, n_ctx, "n_ctx") * _trace(term.W, d_model, "d_model")
        for term in terms(operator)
    )


def inner(
    x: Kron | KronSum, y: Kron | KronSum, *, n_ctx: int | None = None, d_model: int | None = None
) -> Float[Array, "*batch"]:
    """``⟨A1 ⊗ W1, A2 ⊗ W2⟩ = tr(A1ᵀ A2) · tr(W1ᵀ W2)``, over all pairs of terms."""
    return _total(
        _inner(s.A, t.A, n_ctx, "n_ctx") * _inner(s.W, t.W, d_model, "d_model")
        for s in terms(x)
        for t in terms(y)
    )


def norm(
    operator: Kron | KronSum, *, n_ctx: int | None = None, d_model: int | None = None
) -> Float[Array, "*batch"]:
    """Frobenius norm ``√⟨K, K⟩``, cross terms of a sum included; gradient 0 at K = 0."""
    parts = terms(operator)
    squares = [(part, part, 1) for part in parts]
    crosses = [(s, t, 2) for s, t in itertools.combinations(parts, 2)]
    return safe_sqrt(
        _total(
            times * inner(s, t, n_ctx=n_ctx, d_model=d_model) for s, t, times in squares + crosses
        )
    )


def materialise(
    operator: Kron | KronSum,
    *,
    n_ctx: int | None = None,
    d_model: int | None = None,
    max_entries: int = DENSE_LIMIT,
) -> Float[Array, "*batch rows columns"]:
    """The dense ``Σ kron(A, W.T)`` that acts on ``x.ravel()``, for tests and small models."""
    return _total(_dense(term, n_ctx, d_model, max_entries) for term in terms(operator))


def _dense(term: Kron, n_ctx: int | None, d_model: int | None, max_entries: int) -> Array:
    dtype = jnp.result_type(float, *matrices(term.A), *matrices(term.W))
    W = jnp.eye(_size(d_model, "d_model"), dtype=dtype) if term.W is None else term.W
    A = jnp.eye(_size(n_ctx, "n_ctx"), dtype=dtype) if term.A is None else term.A
    batch = jnp.broadcast_shapes(A.shape[:-2], W.shape[:-2])
    shape = (*batch, A.shape[-2] * W.shape[-1], A.shape[-1] * W.shape[-2])
    check_dense_size(shape, max_entries)
    # row (dest, output feature), column (src, input feature)
    return jnp.einsum("...ij,...ab->...ibja", A, multiply(matrices(W))).reshape(shape)


def _trace(factor: Array | Chain | None, size: int | None, name: str) -> Array:
    if factor is None:
        return jnp.asarray(float(_size(size, name)))
    return spectrum.trace(Chain(matrices(factor)))


def _inner(x: Array | Chain | None, y: Array | Chain | None, size: int | None, name: str) -> Array:
    if x is None and y is None:
        return jnp.asarray(float(_size(size, name)))
    if x is None or y is None:  # ⟨I, Y⟩ = tr Y
        return _trace(y if x is None else x, size, name)
    return spectrum.inner(Chain(matrices(x)), Chain(matrices(y)))


def _size(size: int | None, name: str) -> int:
    if size is None:
        raise ValueError(f"{name}=None; an identity factor needs its size here")
    return size


def _total(parts: Iterable[Array]) -> Array:
    return functools.reduce(jnp.add, parts, jnp.asarray(0.0))
