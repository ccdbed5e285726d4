"""Copying and same-matching, read from eigenvalues of k × k problems.

``λ(W_E W_V W_O W_U) = λ(W_V W_O W_U W_E)`` apart from zeros: a vocabulary-sized circuit has at most
d_head non-zero eigenvalues. Positive ones mean that tokens, on the whole, raise themselves. They do
not prove it, since eigenvectors need not be orthogonal: report the diagonal and the top-1 rate too.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Key

from circuitax.circuits.weights.folding import check_pre_ln
from circuitax.kernel.attention import per_head
from circuitax.kernel.chain import Chain, chain_of
from circuitax.kernel.checks import check_index
from circuitax.kernel.gauge import centre_sources
from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.model import Model, check_one_member
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
    check_one_member(model)
    check_pre_ln(model, "composed_keys")
    heads, (layer, head) = per_head(model), writer
    n_layers, n_heads = heads.W_V.shape[:2]
    check_index("writer[0]", layer, n_layers)
    check_index("writer[1]", head, n_heads)
    check_index("reader_layer", reader_layer, n_layers)
    if not layer < reader_layer:
        raise ValueError(f"reader_layer={reader_layer} must be a layer after that of {writer=}")
    queries = chain_of(model.W_E, heads.W_Q[reader_layer])
    marker = (model.W_E, heads.W_V[layer, head], heads.W_O[layer, head])
    return queries, chain_of(*marker, heads.W_K[reader_layer])


class RandomScore(NamedTuple):
    """Mean and standard deviation of a score over random circuits."""

    mean: Float[Array, ""]
    std: Float[Array, ""]


def random_score(key: Key[Array, ""], rank: int, n_samples: int = 100) -> RandomScore:
    """The eigenvalue score of a real Ginibre matrix of the circuit's rank."""
    for name, value, least in (("rank", rank, 1), ("n_samples", n_samples, 2)):
        if value < least:
            raise ValueError(f"{name}={value} must be at least {least}")
    noise = Cycle(jax.random.normal(key, (n_samples, rank, rank)))
    scores = eigenvalue_score(eigenvalues(noise))
    return RandomScore(scores.mean(), scores.std(ddof=1))
