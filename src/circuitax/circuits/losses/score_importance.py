"""Value of Q- and K-composition in nats: losses with patterns rebuilt from selected terms.

`order_terms` keeps the attention patterns of a run, so it sees V-composition alone. This module
rebuilds the scores of one layer's heads from some of their terms (query source × key source) and
applies the softmax to them again.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from circuitax.circuits.attention.score_terms import score_sources, score_terms
from circuitax.kernel.attention import attention_pattern, causal_mask
from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.run import Run

SELECTIONS = ("all", "without Q", "without K", "without both")


def composition_selections(
    sources: tuple[str, ...],
) -> Bool[Array, "n_selections n_sources n_sources"]:
    """Selections of terms without Q-composition, without K-composition, and without both."""
    direct = jnp.array([not name.startswith("head") for name in sources])
    whole = jnp.ones((len(sources), len(sources)), bool)
    no_q = jnp.broadcast_to(direct[:, None], whole.shape)
    return jnp.stack([whole, no_q, no_q.T, no_q & no_q.T])


def rebuilt_patterns(
    terms: Float[Array, "n_heads n_sources n_sources dest src"],
    selection: Bool[Array, "n_sources n_sources"] | Float[Array, "n_sources n_sources"],
    causal: bool,
) -> Float[Array, "n_heads dest src"]:
    """``softmax over sources of Σ selected terms``; uniform attention for an empty selection."""
    index = jnp.arange(terms.shape[-1])
    scores = jnp.einsum("hqkts,qk->hts", terms, selection.astype(terms.dtype))
    return attention_pattern(scores, causal_mask(index, index, causal))


def score_selection_losses(
    run: Run,
    layer: int,
    selections: Bool[Array, "n_selections n_sources n_sources"]
    | Float[Array, "n_selections n_sources n_sources"],
) -> Float[Array, "n_selections n_losses"]:
    """Next-token losses in nats when one layer attends by selected terms of its scores only.

    Source: framework paper, "term importance analysis", which mentions Q- and K-variants without
        defining them; this is our definition.
    """
    model, tokens, patterns = run.model, run.tokens, run.trace.patterns
    n_layers, n_heads = patterns.shape[:2]
    n_sources = len(score_sources(run, layer))
    if selections.shape[1:] != (n_sources, n_sources):
        raise ValueError(
            f"selections has shape {selections.shape}, must end in ({n_sources}, {n_sources})"
        )
    terms = jax.lax.map(
        lambda head: score_terms(run, layer, head).terms,
        jnp.arange(n_heads),
    )
    frozen = jnp.zeros((n_layers, n_heads), bool).at[layer].set(True)

    def one(selection: Array) -> Array:
        own = rebuilt_patterns(terms, selection, model.spec.causal)
        edit = Interventions(patterns=patterns.at[layer].set(own), pattern_frozen=frozen)
        return next_token_losses(forward(model, tokens, edit)[0], tokens)

    return jax.lax.map(one, selections)
