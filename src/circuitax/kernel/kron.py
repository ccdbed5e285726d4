"""Kronecker terms ``A ⊗ W``: A moves between positions, W acts on features at each of them.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import functools
import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn, overload

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float

from circuitax.display.tables import documented, shortened
from circuitax.kernel import spectrum
from circuitax.kernel.chain import DENSE_LIMIT, Chain, check_dense_size, multiply
from circuitax.kernel.chain import scale as scale_chain
from circuitax.kernel.linalg import safe_sqrt


@documented
class Kron(NamedTuple):
    """The operator ``A ⊗ W : x ↦ A @ x @ W`` on rows ``x [*batch, n_ctx, d_in]``.

    ``A [*batch, n_dest, n_src]`` and ``W [*batch, d_in, d_out]``; either may be ``None``, the
    identity of whatever size it meets, and W may be a :class:`Chain`. A pytree.

    Attributes:
        A: Mixes positions; None for the identity.
        W: Acts on features at each of them; None for the identity.

    Differs: the sources act on columns, ``(P ⊗ Q) X = Q X Pᵀ``; with ``x = Xᵀ`` that is
    ``P = A``, ``Q = Wᵀ``. Row-major ``x.ravel()`` is their column-stacking ``vec(X)``, and as a
    matrix the term is ``kron(A, W.T)``.

    ``K @ x`` is :func:`act` on a stream, and ``second @ first`` is :func:`compose`, in the order in
    which operators are written (chains, which act on rows, have the other). ``x + y`` and ``x - y``
    are sums of terms; ``c * x`` and ``x / c`` are :func:`scale`.

    Source: S0 Def. 13, Rmk. 14, Claim 18; S3 Def. 2, Rmk. 3, Claim 7.
    """

    A: Array | None
    W: Array | Chain | None

    def __repr__(self) -> str:
        return f"Kron({_shape(self.A)} ⊗ {_shape(self.W)})"

    # A tuple's own + and * would concatenate and repeat.
    def __add__(self, other: "Kron | KronSum") -> "KronSum":  # type: ignore[override]
        return add(self, other)

    def __sub__(self, other: "Kron | KronSum") -> "KronSum":
        return add(self, scale(other, -1))

    def __mul__(self, factor: ArrayLike) -> "Kron":  # type: ignore[override]
        return scale(self, factor)

    def __rmul__(self, factor: ArrayLike) -> "Kron":  # type: ignore[misc, override]
        return scale(self, factor)

    def __truediv__(self, divisor: ArrayLike) -> "Kron":
        return scale(self, 1 / divisor)

    def __matmul__(self, first: "Kron | KronSum | Array") -> "Kron | KronSum | Array":
        return _after(self, first)

    def __array__(self, *args: Any, **options: Any) -> NoReturn:
        """Refuse NumPy, which would stack the factors of a tuple; raises a ValueError."""
        raise ValueError("a Kronecker operator is no array: use materialise(operator), or norm")


@documented
class KronSum(NamedTuple):
    """A sum of terms, such as a path expansion; the empty sum is 0.

    Attributes:
        terms: What is added up.
    """

    terms: tuple[Kron, ...]

    def __repr__(self) -> str:
        lines = [f"  {term!r}" for term in self.terms]
        return "\n".join([f"KronSum of {len(lines)} terms", *shortened(lines)])

    # A tuple's own + and * would concatenate and repeat.
    def __add__(self, other: "Kron | KronSum") -> "KronSum":  # type: ignore[override]
        return add(self, other)

    def __sub__(self, other: "Kron | KronSum") -> "KronSum":
        return add(self, scale(other, -1))

    def __mul__(self, factor: ArrayLike) -> "KronSum":  # type: ignore[override]
        return scale(self, factor)

    def __rmul__(self, factor: ArrayLike) -> "KronSum":  # type: ignore[misc, override]
        return scale(self, factor)

    def __truediv__(self, divisor: ArrayLike) -> "KronSum":
        return scale(self, 1 / divisor)

    def __matmul__(self, first: "Kron | KronSum | Array") -> "Kron | KronSum | Array":
        return _after(self, first)

    def __array__(self, *args: Any, **options: Any) -> NoReturn:
        """Refuse NumPy, which would stack the factors of a tuple; raises a ValueError."""
        raise ValueError("a Kronecker operator is no array: use materialise(operator), or norm")


# Without it, NumPy would turn an operator beside a number of its own into an array.
Kron.__array_ufunc__ = None  # type: ignore[attr-defined]
KronSum.__array_ufunc__ = None  # type: ignore[attr-defined]


def move(A: Float[Array, "*batch n_dest n_src"]) -> Kron:
    """``A ⊗ I``: carries rows between positions and leaves their content alone (S0 Rmk. 20)."""
    return Kron(A, None)


def process(W: Float[Array, "*batch d_in d_out"] | Chain) -> Kron:
    """``I_n ⊗ W``: the same map at every position (S0 Def. 19, Rmk. 20).

    Differs: the source calls it a "virtual weight", a name that the framework paper gives to
    products of weights between layers; here it is named by its formula.
    """
    return Kron(None, W)


def identity() -> Kron:
    """``I ⊗ I``, the residual connection."""
    return Kron(None, None)


def add(*operators: Kron | KronSum) -> KronSum:
    """The sum of terms and sums, in the order given; nothing is merged."""
    return KronSum(tuple(term for operator in operators for term in terms(operator)))


def terms(operator: Kron | KronSum) -> tuple[Kron, ...]:
    """The terms of a sum, or the one term itself."""
    return operator.terms if isinstance(operator, KronSum) else (operator,)


def matrices(factor: Array | Chain | None) -> tuple[Array, ...]:
    """The matrices whose product a factor is; none for an identity."""
    if factor is None:
        return ()
    return factor.factors if isinstance(factor, Chain) else (factor,)


def act(operator: Kron | KronSum, x: Float[Array, "*batch n_ctx d_in"]) -> Array:
    """``Σ A @ x @ W``, each term multiplied in its cheapest order, ``[*batch, n_dest, d_out]``."""
    parts = [multiply((*matrices(term.A), x, *matrices(term.W))) for term in terms(operator)]
    if not parts:
        raise ValueError("operator is an empty sum; its output size is unknown")
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@overload
def scale(operator: Kron, factor: ArrayLike) -> Kron: ...
@overload
def scale(operator: KronSum, factor: ArrayLike) -> KronSum: ...
@overload
def scale(operator: Kron | KronSum, factor: ArrayLike) -> Kron | KronSum: ...
def scale(operator: Kron | KronSum, factor: ArrayLike) -> Kron | KronSum:
    """``factor · operator``, written into W of each term, or into A where W is the identity."""
    if isinstance(operator, KronSum):
        return KronSum(tuple(scale(term, factor) for term in operator.terms))
    A, W = operator
    if W is not None:
        return Kron(A, W * factor if isinstance(W, Chain) else _scaled(W, factor))
    if A is not None:
        return Kron(_scaled(A, factor), None)
    raise ValueError("the identity I ⊗ I has no entries to scale: write one factor as a matrix")


@overload
def compose(second: Kron, first: Kron) -> Kron: ...
@overload
def compose(second: KronSum, first: Kron | KronSum) -> KronSum: ...
@overload
def compose(second: Kron, first: KronSum) -> KronSum: ...
@overload
def compose(second: Kron | KronSum, first: Kron | KronSum) -> Kron | KronSum: ...
def compose(second: Kron | KronSum, first: Kron | KronSum) -> Kron | KronSum:
    """``second ∘ first``: first acts first; sums distribute, ``first``'s terms varying fastest.

    Row form of the mixed product: ``(A2 ⊗ W2) ∘ (A1 ⊗ W1) = (A2 A1) ⊗ (W1 W2)``. Position
    factors are multiplied, chains are lengthened, and two dense W are multiplied.

    Differs: in column form the feature factors stand in the other order, ``Q2 Q1``.

    Source: S0 Lemma 16 and Prop. 22; S3 Property 5.
    """
    if isinstance(second, Kron) and isinstance(first, Kron):
        return Kron(_positions(second.A, first.A), _features(first.W, second.W))
    return KronSum(tuple(compose(s, f) for s in terms(second) for f in terms(first)))


@overload
def transpose(operator: Kron) -> Kron: ...
@overload
def transpose(operator: KronSum) -> KronSum: ...
def transpose(operator: Kron | KronSum) -> Kron | KronSum:
    """``Aᵀ ⊗ Wᵀ``, the adjoint under ``⟨x, y⟩ = Σ x_ij y_ij``."""
    if isinstance(operator, KronSum):
        return KronSum(tuple(transpose(term) for term in operator.terms))
    A, W = operator
    return Kron(None if A is None else jnp.matrix_transpose(A), _transpose_features(W))


def _shape(factor: Array | Chain | None) -> str:
    return "identity" if factor is None else str(list(factor.shape))


def _scaled(matrix: Array, factor: ArrayLike) -> Array:
    return scale_chain(Chain((matrix,)), factor).factors[0]


def _after(second: Kron | KronSum, first: Kron | KronSum | Array) -> Kron | KronSum | Array:
    return compose(second, first) if isinstance(first, Kron | KronSum) else act(second, first)


def _positions(second: Array | None, first: Array | None) -> Array | None:
    if second is None or first is None:
        return first if second is None else second
    return second @ first


def _features(first: Array | Chain | None, then: Array | Chain | None) -> Array | Chain | None:
    if first is None or then is None:
        return then if first is None else first
    return first @ then


def _transpose_features(W: Array | Chain | None) -> Array | Chain | None:
    if W is None or isinstance(W, Chain):
        return None if W is None else W.T
    return jnp.matrix_transpose(W)


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
