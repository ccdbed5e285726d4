"""Roles of heads read from weights: copying and matching from eigenvalues, memory, and chance.

``λ(W_E W_V W_O W_U) = λ(W_V W_O W_U W_E)`` apart from zeros: a vocabulary-sized circuit has at most
d_head non-zero eigenvalues. Positive ones mean that tokens, on the whole, raise themselves. They do
not prove it, since eigenvectors need not be orthogonal: report the diagonal and the top-1 rate too.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Complex, Float, Int, Key

from circuitax.circuits.weights.folding import check_pre_ln
from circuitax.kernel.attention import per_head
from circuitax.kernel.chain import Chain, chain_of, columns, diagonal, materialise, rows
from circuitax.kernel.gauge import centre_sources
from circuitax.kernel.linalg import (
    cosine,
    orthonormal,
    participation_ratio,
    safe_divide,
    singular,
    symmetric_eigenvalues,
)
from circuitax.kernel.model import Model
from circuitax.kernel.run import Run, one_text
from circuitax.kernel.spectrum import Cycle, cyclic, eigenvalues, unit_factors


def eigenvalue_score(values: Complex[Array, "*batch k"]) -> Float[Array, "*batch"]:
    """``Σ λ / Σ |λ|`` in [-1, 1]; the sum is real, since the circuit is. 0 if all are 0.

    Source: framework paper, "summarizing OV/QK matrices" (the ratio used for its histogram).
    """
    return safe_divide(jnp.sum(jnp.real(values), axis=-1), jnp.sum(jnp.abs(values), axis=-1))


def copying_score(ov: Chain) -> Float[Array, "*batch"]:
    """`eigenvalue_score` of an OV circuit: near 1 for copying heads.

    Source: framework paper; null by `random_score`.
    """
    return eigenvalue_score(eigenvalues(cyclic(unit_factors(ov))))


def same_matching(
    dest_reads: Chain, src_reads: Chain, *, centred: bool = True
) -> tuple[Chain, Float[Array, "*batch"]]:
    """The circuit "score of a source whose marker is token v, for destination u", and its score.

    ``dest_reads @ src_readsᵀ``: for an induction head, destinations read their own token, and
    sources the token that a previous-token head wrote there. A score near 1 says "attend where the
    marker is the same token".

    Source: framework paper, QK eigenvalues of induction heads (the K-composition term, not the
        plain QK circuit).
    """
    circuit = dest_reads @ src_reads.T
    if centred:
        circuit = centre_sources(circuit)
    return circuit, copying_score(circuit)


def composed_keys(model: Model, writer: tuple[int, int], reader_layer: int) -> tuple[Chain, Chain]:
    """Arguments of `same_matching` for one writer and all heads of a later layer."""
    check_pre_ln(model, "composed_keys")
    heads, (layer, head) = per_head(model), writer
    queries = chain_of(model.W_E, heads.W_Q[reader_layer])
    marker = (model.W_E, heads.W_V[layer, head], heads.W_O[layer, head])
    return queries, chain_of(*marker, heads.W_K[reader_layer])


class RandomScore(NamedTuple):
    """Mean and standard deviation of a score over random circuits."""

    mean: Float[Array, ""]
    std: Float[Array, ""]


def random_score(key: Key[Array, ""], rank: int, n_samples: int = 100) -> RandomScore:
    """The eigenvalue score of a real Ginibre matrix of the circuit's rank."""
    noise = Cycle(jax.random.normal(key, (n_samples, rank, rank)))
    scores = eigenvalue_score(eigenvalues(noise))
    return RandomScore(scores.mean(), scores.std(ddof=1))


class Role(NamedTuple):
    """A score for each head and its value by chance."""

    score: Float[Array, "*heads"]
    null: float


def copying(ov: Chain, tokens: Int[Array, " n_tokens"]) -> Role:
    """Copying score: share of a token's raises on the token itself, rescaled to [-1, 1].

    Source: induction-heads paper, "copying" evaluator, with its later remark (ReLU on mean-centred
        logits).
    Differs: it is taken over the set and not the vocabulary, so that chance is ``2/n - 1`` at any
        vocabulary.
    """
    table = materialise(columns(rows(ov, tokens), tokens))
    raised = jax.nn.relu(table - table.mean(axis=-1, keepdims=True))
    own = jnp.trace(raised, axis1=-2, axis2=-1)
    share = safe_divide(own, raised.sum(axis=(-2, -1)))
    return Role(2 * share - 1, 2 / tokens.shape[0] - 1)


def name_moving(
    pattern: Float[Array, "*heads dest src"],
    ov: Chain,
    tokens: Int[Array, " n_ctx"],
    names: Bool[Array, " n_ctx"],
    dest: int = -1,
) -> Role:
    """Name-mover score: attention from one position to the names, times the head's copying rate.

    ``Σ_{s in names} A_ts [x_s is the top of the OV row of x_s over the names]``, in [0, 1].

    Source: name movers of the indirect-object work, as a detector; null: uniform attention to all
        sources and a random row.
    """
    among = materialise(columns(rows(ov, tokens), tokens))
    rivals = jnp.where(jnp.broadcast_to(names, among.shape), among, -jnp.inf)
    copied = jnp.diagonal(among, axis1=-2, axis2=-1) >= rivals.max(axis=-1)
    counted = (copied & jnp.broadcast_to(names, copied.shape)).astype(pattern.dtype)
    moved = jnp.sum(pattern[..., dest, :] * counted, axis=-1)
    return Role(moved, 1 / pattern.shape[-1])


class MemoryManagement(NamedTuple):
    """Signs of erasing heads: both are negative for a head that clears the stream.

    Attributes:
        alignment: Mean cosine between what the head writes and the stream it is added to; 0 by
            chance.
        own_token: Mean over tokens of attention to the present position times the OV diagonal, in
            logits.
    """

    alignment: Float[Array, "n_layers n_heads"]
    own_token: Float[Array, "n_layers n_heads"]


def memory_management(run: Run, ov: Chain) -> MemoryManagement:
    """Alignment of each head's output with the stream, and its effect on the present token's logit.

    Source: framework paper, "memory management" by heads of large negative OV eigenvalues that
        attend to the present token; S4.
    """
    trace = one_text(run).trace
    if trace.head_outputs is None:
        raise ValueError("run.trace.head_outputs is None: call forward with outputs=True")
    stream = jnp.broadcast_to(trace.streams[:-1, None], trace.head_outputs.shape)
    own = jnp.diagonal(trace.patterns, axis1=-2, axis2=-1)
    return MemoryManagement(
        cosine(trace.head_outputs, stream).mean(axis=-1),
        (own * diagonal(ov)[..., run.tokens]).mean(axis=-1),
    )


class Overlap(NamedTuple):
    """Overlap of pairs of subspaces, and its value for random ones of equal sizes.

    Attributes:
        value: ``Σ cos² / min(a, b)`` over the principal angles, in [0, 1].
        null: ``max(a, b) / d``, the mean for Haar-random subspaces.
        std: Their standard deviation; ``(value - null) / std`` is a z-score.
    """

    value: Float[Array, "*pairs"]
    null: float
    std: float


def basis(W: Float[Array, "*batch d_model k"], name: str = "W") -> Float[Array, "*batch d_model k"]:
    """Orthonormal columns with the span of W's columns."""
    d_model, k = W.shape[-2:]
    if not 1 <= k <= d_model:
        raise ValueError(f"{name} has k={k} columns, must have at least 1 and at most {d_model=}")
    columns, triangle = orthonormal(W)
    independent = _independent(jax.lax.stop_gradient(triangle), d_model)
    if not isinstance(independent, jax.core.Tracer) and not independent.all():
        raise ValueError(
            f"{name} has linearly dependent columns, must have full column rank k={k}: pass a "
            "basis of its column space (such as its left singular vectors)"
        )
    return jnp.where(independent[..., None, None], columns, jnp.nan)


def _independent(triangle: Float[Array, "*batch k k"], d_model: int) -> Bool[Array, "*batch"]:
    sizes = singular(triangle)
    return sizes[..., -1] > d_model * jnp.finfo(sizes.dtype).eps * sizes[..., 0]


def overlap(x: Float[Array, "*batch d_model a"], y: Float[Array, "*batch d_model_y b"]) -> Overlap:
    """Share of the smaller column space that lies in the larger one.

    ``‖B_xᵀ B_y‖² / min(a, b)`` with orthonormal bases, which is the projection kernel.

    Source: S4, "bandwidth of the residual stream"; null by invariance: E‖B_xᵀ B_y‖² = a b / d, and
        the variance of `composition`'s null, with projectors: 2 a (d-a) b (d-b) / (d² (d-1) (d+2)).
    """
    d, a, b = x.shape[-2], x.shape[-1], y.shape[-1]
    shared = jnp.sum(principal_cosines(x, y) ** 2, axis=-1)
    variance = 2 * a * (d - a) * b * (d - b) / (d**2 * (d - 1) * (d + 2)) if d > 1 else 0.0
    return Overlap(shared / min(a, b), max(a, b) / d, variance**0.5 / min(a, b))


def principal_cosines(
    x: Float[Array, "*batch d_model a"], y: Float[Array, "*batch d_model_y b"]
) -> Float[Array, "*batch k"]:
    """Cosines of the principal angles between two column spaces, in falling order."""
    inner = jnp.matrix_transpose(basis(x, "x")) @ basis(y, "y")
    return jnp.clip(singular(inner), 0, 1)


class Bandwidth(NamedTuple):
    """Bandwidth of the stream: use and reuse of its dimensions by the writers of a model.

    Attributes:
        written: Dimensions all writers have together, over d_model: above 1 they must share.
        effective: Participation ratio of the mean projector's spectrum, over d_model; 1 if used
            evenly.
        reused: Mean overlap between two different writers, in [0, 1]; ``k / d_model`` at random.
    """

    written: float
    effective: Float[Array, ""]
    reused: Float[Array, ""]


def bandwidth(W_O: Float[Array, "*n_writers k d_model"]) -> Bandwidth:
    """Use of the residual stream by heads (or groups of neurons), from their write spaces.

    Source: S4 and the framework paper, "the residual stream has limited bandwidth".
    """
    n, k, d = W_O.shape
    B = basis(jnp.matrix_transpose(W_O), "the transpose of W_O")
    total = jnp.einsum("nik,njk->ij", B, B)
    spectrum = jnp.clip(symmetric_eigenvalues(total), 0)
    # Σ_{m≠n} ‖B_mᵀ B_n‖² is ‖total‖² less the n diagonal terms of k each
    pairs = jnp.asarray(n * (n - 1) * k, W_O.dtype)
    reused = safe_divide(jnp.sum(total**2) - n * k, pairs)
    return Bandwidth(n * k / d, participation_ratio(spectrum) / d, reused)
