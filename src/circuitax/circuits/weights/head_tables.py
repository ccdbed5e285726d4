"""Skip-trigrams of every head of a one-layer model: by rule, by given words, and by split words.

F3 is a figure of the framework paper, as docs/acceptance.md numbers them.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.circuits.weights.token_tables import skip_trigrams
from circuitax.kernel.chain import Chain, columns, materialise, rows
from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.model import Model


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


def row_percentile(
    model: Model,
    source: int | Int[Array, ""],
    destinations: Int[Array, " n_destinations"],
    outs: Int[Array, " n_outs"],
) -> Float[Array, " n_heads"]:
    """Percentile of a given row of a skip-trigram table in each head, from 0 to 1.

    Source: S0, "Some Structures in Transformer Architectures", Table 1, with the words of the
        framework paper's F3.
    """
    at = jnp.array([source])
    scores = materialise(rows(_layer(token_qk(model)).T, at))[:, 0]
    raises = materialise(rows(_layer(token_ov(model)), at))[:, 0]

    def percentile(values: Array, chosen: Array) -> Array:
        return (values[:, None, :] < values[:, chosen][..., None]).mean(axis=(-2, -1))

    return jnp.minimum(percentile(scores, destinations), percentile(raises, outs))


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
