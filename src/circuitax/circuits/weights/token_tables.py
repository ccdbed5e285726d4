"""Circuits as tables of tokens: skip-trigrams, copying accuracy, keys and values of neurons.

All of them go through the vocabulary block by block (`kernel.streaming`) and use the gauge of
`heads`: they read centred scores before the softmax, not probabilities. Call them under jit.

Sources (docs/bibliography.md): S0 is "Some Structures in Transformer Architectures", S1 the
linear-algebra post and S2 the attention chapter.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.kernel.chain import Chain, chain_of, rows
from circuitax.kernel.streaming import (
    BLOCK_ENTRIES,
    TopColumns,
    diagonal_rank,
    top_k_columns,
)
from circuitax.kernel.weights import MLPWeights


def copying_accuracy(
    ov: Chain, k: int = 1, *, block_entries: int = BLOCK_ENTRIES
) -> Float[Array, "*heads"]:
    """The share of tokens that are among the k they raise most; by chance ``k / d_vocab``.

    Source: ARENA 1.2, "top-1 accuracy of the full OV circuit" (30.79 %, top-5 47.73 % for its
        head 1.4).
    """
    n, d_vocab = ov.shape[-2:]
    if n != d_vocab:
        raise ValueError(f"ov has shape {ov.shape}, must end in [d_vocab, d_vocab]")
    if not 1 <= k <= d_vocab:
        raise ValueError(f"k={k} must be from 1 to {d_vocab=}")
    return jnp.mean(diagonal_rank(ov, block_entries=block_entries) < k, axis=-1)


class SkipTrigrams(NamedTuple):
    """Destinations that attend to some sources, and the output tokens that these raise.

    Attributes:
        weight: Largest positive score times largest positive raise: what the sources are ranked by.
    """

    sources: Int[Array, " n_sources"]
    weight: Float[Array, " n_sources"]
    destinations: Int[Array, "n_sources k"]
    scores: Float[Array, "n_sources k"]
    outs: Int[Array, "n_sources k"]
    raises: Float[Array, "n_sources k"]


def skip_trigrams(
    qk: Chain, ov: Chain, n_sources: int, k: int, *, block_entries: int = BLOCK_ENTRIES
) -> SkipTrigrams:
    """The strongest skip-trigrams of one head, by source: largest score times largest raise.

    Source: S0 Table 1 and section 5 ("large entries in the joint matrices"); framework paper.
    Differs: the entries are the largest by this rule, not chosen by hand.
    """
    _check_one_head(qk, ov)
    d_vocab = qk.shape[-1]
    for name, value in (("k", k), ("n_sources", n_sources)):
        if not 1 <= value <= d_vocab:
            raise ValueError(f"{name}={value} must be from 1 to d_vocab={d_vocab}")
    attended = top_k_columns(qk.T, 1, block_entries=block_entries).values[:, 0]
    raised = top_k_columns(ov, 1, block_entries=block_entries).values[:, 0]
    weight, sources = jax.lax.top_k(jax.nn.relu(attended) * jax.nn.relu(raised), n_sources)
    scores, destinations = top_k_columns(rows(qk.T, sources), k, block_entries=block_entries)
    raises, outs = top_k_columns(rows(ov, sources), k, block_entries=block_entries)
    return SkipTrigrams(sources, weight, destinations, scores, outs, raises)


def _check_one_head(qk: Chain, ov: Chain) -> None:
    for name, chain in (("qk", qk), ("ov", ov)):
        if len(chain.shape) != 2:
            raise ValueError(
                f"{name} has shape {chain.shape}, must be one head's, [d_vocab, d_vocab]"
            )


class Triples(NamedTuple):
    """The strongest (source, destination, out) triples of one head, strongest first."""

    source: Int[Array, " k"]
    destination: Int[Array, " k"]
    out: Int[Array, " k"]
    strength: Float[Array, " k"]


def top_triples(qk: Chain, ov: Chain, k: int, *, block_entries: int = BLOCK_ENTRIES) -> Triples:
    """The k triples of largest positive score times positive raise, over the whole vocabulary."""
    table = skip_trigrams(qk, ov, k, k, block_entries=block_entries)
    strength = jax.nn.relu(table.scores)[:, :, None] * jax.nn.relu(table.raises)[:, None, :]
    values, flat = jax.lax.top_k(strength.ravel(), k)
    source, pair = flat // (k * k), flat % (k * k)
    return Triples(
        table.sources[source],
        table.destinations[source, pair // k],
        table.outs[source, pair % k],
        values,
    )


class NeuronTable(NamedTuple):
    """Input and output tokens of each hidden unit of an MLP.

    Attributes:
        keys: Tokens whose embedding excites the unit most, ``W_E W_in``.
        values: Tokens that the unit raises most when it fires, ``W_out W_U``.
    """

    keys: TopColumns
    values: TopColumns


def neuron_tables(
    mlp: MLPWeights,
    W_E: Float[Array, "d_vocab d_model"],
    W_U: Float[Array, "d_model d_vocab"],
    k: int,
    *,
    block_entries: int = BLOCK_ENTRIES,
) -> NeuronTable:
    """Keys and values of one layer's neurons: an MLP as a memory from tokens to tokens.

    Source: S1 section 5 ("expand, activate, compress"); S2, feed-forward layers.
    """
    if mlp.W_hidden is not None:
        raise ValueError(
            f"mlp.W_hidden has shape {mlp.W_hidden.shape}, must be None (mlp_depth=1): units of "
            "the first hidden layer have keys, units of the last have values"
        )
    if mlp.W_in.ndim != 2:
        raise ValueError(
            f"mlp.W_in has shape {mlp.W_in.shape}, must be one layer's, [d_model, d_mlp]"
        )
    reads = mlp.W_in if mlp.W_gate is None else mlp.W_gate
    return NeuronTable(
        top_k_columns(chain_of(reads.T, W_E.T), k, block_entries=block_entries),
        top_k_columns(chain_of(mlp.W_out, W_U), k, block_entries=block_entries),
    )
