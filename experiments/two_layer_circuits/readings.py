"""What is measured of one two-layer model: composition, copying, terms, ablations."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from circuitax.circuits.attribution import attribute_sources, value_weighted
from circuitax.circuits.components import components_of
from circuitax.circuits.composition import composition
from circuitax.circuits.detectors import induction_mask
from circuitax.circuits.frozen import frozen_model
from circuitax.circuits.heads import token_ov
from circuitax.circuits.importance import cumulative, selection_losses
from circuitax.circuits.in_context import token_losses
from circuitax.circuits.induction_scores import induction_scores
from circuitax.circuits.order_terms import layer_subset_streams, order_streams
from circuitax.circuits.patching import ablate, each_component
from circuitax.circuits.read_out import token_directions
from circuitax.circuits.score_importance import composition_selections, score_selection_losses
from circuitax.circuits.score_terms import score_sources
from circuitax.circuits.spectra import composed_keys, copying_score, same_matching
from circuitax.kernel.forward import forward
from circuitax.kernel.gauge import centre_vocabulary
from circuitax.kernel.interventions import Trace
from circuitax.kernel.linalg import safe_divide
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.weights import TransformerWeights
from experiments.circuit_identities.readings import ablation_error

# Selections of the layer subsets {}, {0}, {1}, {0, 1}: nothing but terms of order at most 1.
FIRST_ORDER = ((1, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 1, 1, 0), (1, 1, 1, 1))


def of_weights(weights: TransformerWeights, spec: ForwardSpec) -> dict[str, Array]:
    """Read from the weights alone: Q-, K-, V-composition, copying, same-matching."""
    heads = weights.blocks.attention
    found = composition(heads)
    n_heads = heads.W_Q.shape[1]
    matching = [
        same_matching(*composed_keys(weights.W_E, heads, (0, writer), 1))[1]
        for writer in range(n_heads)
    ]
    return {
        "composition": found.score[:, 0, :, 1, :],
        "composition_z": found.z[:, 0, :, 1, :],
        "composition_most": found.maximum[:, 0, :, 1, :],
        "copying": copying_score(token_ov(weights, spec)),
        "matching": jnp.stack(matching),
    }


def of_texts(
    weights: TransformerWeights, texts: Array, late: int, spec: ForwardSpec
) -> dict[str, Array]:
    """Read from runs: detector scores, losses of terms, losses under every single ablation.

    Losses are means over the tokens from index ``late`` on, all of which earlier ones decide.
    """
    scores = induction_scores(weights, texts, spec)

    def one(text: Array) -> tuple[dict[str, Array], dict[str, Array]]:
        _, trace = forward(weights, text, spec)
        terms = term_losses(weights, text, spec, trace)

        def loss(logits: Array) -> Array:
            return token_losses(logits, text)[late - 1 :].mean()

        cells = each_component(weights)
        shape = cells.heads.shape[1:]
        reacting = ablate(weights, text, spec, cells, loss)
        preserving = ablate(weights, text, spec, cells, loss, preserved=trace)
        return {
            **{name: losses[:, late - 1 :].mean(axis=1) for name, losses in terms.items()},
            "score_loss": score_losses(weights, text, spec)[:, late - 1 :].mean(axis=1),
            "ablated": reacting.reshape(shape),
            "ablated_preserving": preserving.reshape(shape),
        }, at_repeats(weights, text, jnp.arange(1, len(text)) >= late, spec, trace)

    found, sums = jax.lax.map(one, texts)
    means = jax.tree.map(lambda x: x.mean(axis=0), found)
    means |= shares_at_repeats(jax.tree.map(lambda x: x.sum(axis=0), sums))
    late_loss = scores.loss_by_position[late - 1 :].mean()
    named = {"prefix": scores.prefix, "previous": scores.previous, "loss": late_loss}
    by_position = {"loss_by_position": scores.loss_by_position, "chance": scores.chance}
    return means | named | by_position | {"identity": _identity(weights, texts[0], spec)}


def term_losses(
    weights: TransformerWeights, text: Array, spec: ForwardSpec, trace: Trace
) -> dict[str, Float[Array, "selection n_losses"]]:
    """Losses of two layers by order (0, at most 1, all) and by `FIRST_ORDER`, patterns frozen."""
    model = frozen_model(weights, text, spec, trace)
    orders, subsets = order_streams(model), layer_subset_streams(model)
    first = jnp.array(FIRST_ORDER, bool)
    return {
        "order_loss": selection_losses(orders, cumulative(3), model.read_out, text),
        "first_order_loss": selection_losses(subsets, first, model.read_out, text),
    }


def score_losses(
    weights: TransformerWeights, text: Array, spec: ForwardSpec
) -> Float[Array, "selection n_losses"]:
    """Losses when the second layer attends without Q-composition, without K, without both."""
    _, trace = forward(weights, text, spec, outputs=True)
    parts = components_of(weights, text, spec, trace)
    selections = composition_selections(score_sources(weights, spec, parts, 1))
    return score_selection_losses(weights, text, spec, 1, selections)


def at_repeats(
    weights: TransformerWeights,
    text: Array,
    repeats: Bool[Array, " n_losses"],
    spec: ForwardSpec,
    trace: Trace,
) -> dict[str, Array]:
    """Sums over the predictions that repeat an earlier pair; `shares_at_repeats` divides them.

    ``moved`` is value-weighted attention, ``on_match`` its part on tokens that follow an earlier
    copy of the present one and are the next one, ``hits`` counts heads that look most at one of
    these, ``raised`` is the direct effect on the next token's logit over that on the mean token.
    """
    match = induction_mask(text)[:-1] & repeats[:, None]
    counted = repeats.astype(trace.patterns.dtype)[None, None]
    moved = value_weighted(weights, spec, trace)[:, :, :-1]
    looks = trace.patterns[:, :, :-1]
    top = jnp.argmax(looks, axis=-1, keepdims=True)
    hit = jnp.take_along_axis(jnp.broadcast_to(match, looks.shape), top, axis=-1)
    read_out = frozen_model(weights, text, spec, trace).read_out
    read_out = read_out._replace(W_U=centre_vocabulary(read_out.W_U))
    directions = token_directions(read_out, jnp.roll(text, -1))
    effect = attribute_sources(weights, spec, trace, read_out, directions).sum(axis=-1)
    return {
        "moved": (moved.sum(axis=-1) * counted).sum(axis=-1),
        "on_match": jnp.where(match[None, None], moved, 0).sum(axis=(2, 3)),
        "hits": hit[..., 0].sum(axis=-1),
        "raised": (effect[:, :, :-1] * counted).sum(axis=-1),
        "n_repeats": repeats.sum(),
    }


def shares_at_repeats(sums: dict[str, Array]) -> dict[str, Array]:
    """Shares and means of each head at repeats, from `at_repeats` summed over texts."""
    n = jnp.broadcast_to(sums["n_repeats"].astype(sums["moved"].dtype), sums["moved"].shape)
    return {
        "stripes": safe_divide(sums["on_match"], sums["moved"]),
        "top_is_match": safe_divide(sums["hits"].astype(n.dtype), n),
        "raises": safe_divide(sums["raised"], n),
    }


def _identity(weights: TransformerWeights, text: Array, spec: ForwardSpec) -> Array:
    """Greatest error of the ablation identity, relative to the greatest logit."""
    logits, _ = forward(weights, text, spec)
    return jnp.abs(ablation_error(weights, text, spec)).max() / jnp.abs(logits).max()
