"""What Q- and K-composition are worth in nats: losses when patterns are rebuilt from some terms.

`order_terms` holds patterns, and so sees V-composition alone. Here the scores of one layer's heads
are rebuilt from some of their terms (query source × key source), and go through the softmax anew.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.circuits.components import components_of
from circuitax.circuits.in_context import token_losses
from circuitax.circuits.score_terms import score_sources, score_terms
from circuitax.kernel.attention import attention_pattern, causal_mask
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.weights import TransformerWeights

SELECTIONS = ("all", "without Q", "without K", "without both")


def composition_selections(
    sources: tuple[str, ...],
) -> Bool[Array, "n_selections n_sources n_sources"]:
    """Which terms remain without Q-composition, without K-composition, without either.

    A term composes on the side where its source is an earlier head. Rows are those of `SELECTIONS`;
    columns are ``[query source, key source]``.

    Args:
        sources: From `score_sources`.
    """
    direct = jnp.array([not name.startswith("head") for name in sources])
    whole = jnp.ones((len(sources), len(sources)), bool)
    no_q = jnp.broadcast_to(direct[:, None], whole.shape)
    return jnp.stack([whole, no_q, no_q.T, no_q & no_q.T])


def rebuilt_patterns(
    terms: Float[Array, "n_heads n_sources n_sources dest src"],
    selection: Bool[Array, "n_sources n_sources"] | Float[Array, "n_sources n_sources"],
    causal: bool,
) -> Float[Array, "n_heads dest src"]:
    """``softmax over sources of Σ selected terms``; with nothing selected, uniform attention."""
    index = jnp.arange(terms.shape[-1])
    scores = jnp.einsum("hqkts,qk->hts", terms, selection.astype(terms.dtype))
    return attention_pattern(scores, causal_mask(index, index, causal))


def score_selection_losses(
    weights: TransformerWeights,
    tokens: Int[Array, " n_ctx"],
    spec: ForwardSpec,
    layer: int,
    selections: Bool[Array, "n_selections n_sources n_sources"]
    | Float[Array, "n_selections n_sources n_sources"],
) -> Float[Array, "n_selections n_losses"]:
    """Next-token losses in nats when one layer attends by some terms of its scores only.

    Later layers react, earlier ones are as they were, and the layer's values too: a marginal is
    what the terms do through this layer's patterns.

    Args:
        weights: Any transformer.
        tokens: One text.
        spec: Static.
        layer: Whose heads; static, in ``[0, n_layers)``.
        selections: From `composition_selections`, or any weights on the terms.

    Raises:
        ValueError: If ``layer`` is out of range, or the selections have other sources.

    Source: framework paper, "term importance analysis", which mentions Q- and K-variants without
        defining them; this is our definition.
    """
    n_layers, n_heads = weights.blocks.attention.W_Q.shape[-4:-2]
    if not 0 <= layer < n_layers:
        raise ValueError(f"layer={layer} must be from 0 to {n_layers - 1}")
    _, trace = forward(weights, tokens, spec, outputs=True)
    parts = components_of(weights, tokens, spec, trace)
    n_sources = len(score_sources(weights, spec, parts, layer))
    if selections.shape[1:] != (n_sources, n_sources):
        raise ValueError(
            f"selections has shape {selections.shape}, must end in ({n_sources}, {n_sources})"
        )
    terms = jax.lax.map(
        lambda head: score_terms(weights, spec, trace, parts, layer, head).terms,
        jnp.arange(n_heads),
    )
    frozen = jnp.zeros((n_layers, n_heads), bool).at[layer].set(True)

    def one(selection: Array) -> Array:
        own = rebuilt_patterns(terms, selection, spec.causal)
        edit = Interventions(patterns=trace.patterns.at[layer].set(own), pattern_frozen=frozen)
        return token_losses(forward(weights, tokens, spec, edit)[0], tokens)

    return jax.lax.map(one, selections)
