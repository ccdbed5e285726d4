"""Circuits as tables of tokens: skip-trigrams, copying accuracy, keys and values of neurons.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.kernel.chain import (
    BLOCK_ENTRIES,
    Chain,
    TopColumns,
    chain_of,
    columns,
    diagonal_rank,
    materialise,
    rows,
    top_k_columns,
)
from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.model import Model
from circuitax.kernel.weights import MLPWeights


def copying_accuracy(
    ov: Chain, k: int = 1, *, block_entries: int = BLOCK_ENTRIES
) -> Float[Array, "*heads"]:
    """The share of tokens that are among the k they raise most; by chance ``k / d_vocab``.

    Source: ARENA 1.2, "top-1 accuracy of the full OV circuit" (30.79 %, top-5 47.73 % for its
        head 1.4).
    """
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
    attended = top_k_columns(qk.T, 1, block_entries=block_entries).values[:, 0]
    raised = top_k_columns(ov, 1, block_entries=block_entries).values[:, 0]
    weight, sources = jax.lax.top_k(jax.nn.relu(attended) * jax.nn.relu(raised), n_sources)
    scores, destinations = top_k_columns(rows(qk.T, sources), k, block_entries=block_entries)
    raises, outs = top_k_columns(rows(ov, sources), k, block_entries=block_entries)
    return SkipTrigrams(sources, weight, destinations, scores, outs, raises)


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
        raise ValueError("mlp.W_hidden must be None: first and last units are not the same")
    reads = mlp.W_in if mlp.W_gate is None else mlp.W_gate
    return NeuronTable(
        top_k_columns(chain_of(reads.T, W_E.T), k, block_entries=block_entries),
        top_k_columns(chain_of(mlp.W_out, W_U), k, block_entries=block_entries),
    )


def head_tables(model: Model, tokens: Int[Array, " n_tokens"], n: int, k: int) -> dict[str, Array]:
    """The skip-trigram table of each head of one model (S0 Table 1, by rule), of some tokens.

    Source: S0, "Some Structures in Transformer Architectures", Table 1.
    """
    qk, ov = token_qk(model), token_ov(model)
    heads = []
    for head in range(model.n_heads):
        among = [rows(rows(_head(circuit, head), tokens).T, tokens).T for circuit in (qk, ov)]
        found = skip_trigrams(among[0], among[1], n, k)._asdict()
        ids = {name: tokens[found[name]] for name in ("sources", "destinations", "outs")}
        heads.append(found | ids)
    return jax.tree.map(lambda *columns: jnp.stack(columns), *heads)


def rejoining(
    model: Model, first: Int[Array, " n_words"], second: Int[Array, " n_words"]
) -> Float[Array, " n_heads"]:
    """Detect heads that re-join words split over two tokens: ``[b] … [a] → [b]``.

    Source: framework paper, one-layer models, F3 ("words split over tokens").
    """
    scores = materialise(columns(rows(_layer(token_qk(model)), first), second))
    raises = materialise(columns(rows(_layer(token_ov(model)), second), second))

    def own_over_others(table: Array) -> Array:
        own = jnp.diagonal(table, axis1=-2, axis2=-1)
        return safe_divide(own - table.mean(axis=-1), table.std(axis=-1)).mean(axis=-1)

    # What raises a second piece is compared over sources, which are the rows.
    return jnp.minimum(own_over_others(scores), own_over_others(jnp.matrix_transpose(raises)))


def _layer(circuit: Chain) -> Chain:
    """The heads of the first layer; factors without heads, such as the embedding, stay."""
    return jax.tree.map(lambda f: f[0] if f.ndim == 4 else f, circuit)


def _head(circuit: Chain, head: int) -> Chain:
    return jax.tree.map(lambda f: f[0, head] if f.ndim == 4 else f, circuit)
